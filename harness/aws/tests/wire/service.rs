//! Service with prepared answers in AWS' own wire formats.

use std::sync::{Arc, Mutex};

use aws_config::Region;
use aws_config::retry::RetryConfig;
use aws_sdk_s3::config::Credentials;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use epochcost_aws::Clients;
use tokio::net::TcpListener;

/// Operation of a request: from a header or the form's `Action`, or else method and path.
pub type Answerer = fn(&str) -> (u16, String);
/// Operation with the number of its earlier requests.
type Counting = dyn Fn(&str, usize) -> (u16, String) + Send + Sync;

/// Operations that were asked for, with the requests' bodies.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

#[derive(Clone)]
struct Shared {
    answer: Arc<Counting>,
    asked: Asked,
}

pub struct Service {
    pub url: String,
    asked: Asked,
}

impl Service {
    pub async fn start(answer: Answerer) -> Self {
        Self::start_counting(move |operation, _| answer(operation)).await
    }

    /// Starts a service that answers by the number of earlier requests of an operation.
    pub async fn start_counting(
        answer: impl Fn(&str, usize) -> (u16, String) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let shared = Shared {
            answer: Arc::new(answer),
            asked: asked.clone(),
        };
        let routes = Router::new().fallback(serve).with_state(shared);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url, asked }
    }

    pub async fn clients(&self) -> Clients {
        let retries =
            RetryConfig::standard().with_initial_backoff(std::time::Duration::from_millis(1));
        let config = epochcost_aws::configuration()
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .retry_config(retries)
            .endpoint_url(&self.url);
        Clients::new(config.load().await, None).unwrap()
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

/// Returns an error in EC2's form.
pub fn ec2_error(code: &str) -> String {
    format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>told to</Message></Error></Errors>\
         <RequestID>1</RequestID></Response>"
    )
}

pub fn identity() -> String {
    "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
     <GetCallerIdentityResult><Arn>arn:aws:sts::123456789012:assumed-role/Admin/me</Arn>\
     <UserId>A:me</UserId><Account>123456789012</Account></GetCallerIdentityResult>\
     </GetCallerIdentityResponse>"
        .to_owned()
}

pub fn regions() -> String {
    "<DescribeRegionsResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><regionInfo>\
     <item><regionName>eu-west-1</regionName></item></regionInfo></DescribeRegionsResponse>"
        .to_owned()
}
