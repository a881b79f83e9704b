//! Service with prepared answers in AWS' own wire formats.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_config::Region;
use aws_config::retry::RetryConfig;
use aws_sdk_s3::config::Credentials;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use epochcost_aws::Clients;
use tokio::net::TcpListener;

/// Answer to an operation and the number of its earlier requests: status and body. An operation is
/// known from a header or the form's `Action`, or else by method and path.
type Answerer = dyn Fn(&str, usize) -> (u16, String) + Send + Sync;

/// Operation, the end of one where it is a path; and its answers, one after another, the last again and
/// again. An answer is what EC2's has in it, or a status with the whole answer, or with an error of
/// EC2: its code, and what it says if that matters.
pub type Row<'a> = (&'a str, &'a [&'a str]);

/// Operations that were asked for, with the requests' bodies.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

#[derive(Clone)]
struct Shared {
    answer: Arc<Answerer>,
    asked: Asked,
}

pub struct Service {
    url: String,
    asked: Asked,
}

impl Service {
    /// Starts a service that answers by rows, the first of an operation: a request for anything else is
    /// a failure.
    pub async fn of(rows: &[Row<'_>]) -> Self {
        let owned = |(operation, answers): &Row<'_>| {
            let answers: Vec<String> = answers.iter().map(|&answer| answer.to_owned()).collect();
            ((*operation).to_owned(), answers)
        };
        let rows: Vec<_> = rows.iter().map(owned).collect();
        Self::start(move |operation, before| {
            let row = rows.iter().find(|(name, _)| operation.ends_with(name));
            let (_, answers) = row.unwrap_or_else(|| panic!("nobody should ask for {operation}"));
            written(operation, &answers[before.min(answers.len() - 1)])
        })
        .await
    }

    pub async fn start(
        answer: impl Fn(&str, usize) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        let asked = Asked::default();
        let shared = Shared {
            answer: Arc::new(answer),
            asked: asked.clone(),
        };
        let url = listen(Router::new().fallback(serve).with_state(shared)).await;
        Self { url, asked }
    }

    pub async fn clients(&self) -> Clients {
        clients(&self.url).await
    }

    pub fn asked(&self, operation: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|(asked, _)| asked == operation).count()
    }

    /// Returns the body of the first request of an operation.
    pub fn first(&self, operation: &str) -> String {
        let asked = self.asked.lock().unwrap();
        let first = asked.iter().find(|(asked, _)| asked == operation);
        first.map(|(_, body)| body.clone()).unwrap()
    }
}

/// Starts a server of this machine; returns its URL.
pub async fn listen(routes: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    url
}

/// Returns clients of a server that stands for AWS.
pub async fn clients(url: &str) -> Clients {
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    let config = epochcost_aws::configuration()
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(retries)
        .endpoint_url(url);
    Clients::new(config.load().await, None).unwrap()
}

/// Returns status and body of an answer in a row.
fn written(operation: &str, answer: &str) -> (u16, String) {
    if answer.starts_with('<') {
        return (200, ec2(operation, answer));
    }
    let (status, rest) = answer.split_once(' ').unwrap_or((answer, ""));
    let is_whole = rest.is_empty() || rest.starts_with(['<', '{']);
    let text = if is_whole {
        rest.to_owned()
    } else {
        ec2_error(rest)
    };
    (status.parse().unwrap(), text)
}

async fn serve(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let target = headers
        .get("x-amz-target")
        .map(|target| target.to_str().unwrap());
    let form = String::from_utf8_lossy(&body);
    let action = form
        .split('&')
        .find_map(|pair| pair.strip_prefix("Action="));
    let operation = target
        .and_then(|target| target.rsplit('.').next())
        .or(action);
    let place = format!("{method} {}", uri.path());
    let operation = operation.unwrap_or(&place);
    let before = {
        let mut asked = shared.asked.lock().unwrap();
        let before = asked.iter().filter(|(asked, _)| asked == operation).count();
        asked.push((operation.to_owned(), form.to_string()));
        before
    };
    let (status, text) = (shared.answer)(operation, before);
    (StatusCode::from_u16(status).unwrap(), text)
}

/// Returns an answer of EC2.
fn ec2(operation: &str, content: &str) -> String {
    format!(
        "<{operation}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">\
         <requestId>1</requestId>{content}</{operation}Response>"
    )
}

/// Returns an error in EC2's form: of a code, and what it says.
fn ec2_error(error: &str) -> String {
    let (code, message) = error.split_once(' ').unwrap_or((error, "told to"));
    format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>\
         <RequestID>1</RequestID></Response>"
    )
}

/// Answer to `GetCallerIdentity`.
pub const IDENTITY: &str = "200 <GetCallerIdentityResponse \
    xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><GetCallerIdentityResult>\
    <Arn>arn:aws:sts::123456789012:assumed-role/Admin/me</Arn><UserId>A:me</UserId>\
    <Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>";
