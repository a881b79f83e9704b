//! Client of the backend: the emulator of S3, CloudWatch Logs and EC2.

use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use bytes::Bytes;
use epochcost_channels::ChannelError;
use epochcost_channels::client::plain_http;
use epochcost_platform::local::InvocationLines;
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

/// Backend, which accepts requests without a valid signature.
#[derive(Clone)]
pub(crate) struct Backend {
    endpoint: String,
    region: String,
    client: Client,
}

impl Backend {
    pub(crate) fn new(endpoint: &str, region: &str) -> Result<Self, ChannelError> {
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            region: region.to_owned(),
            client: plain_http()?,
        })
    }

    /// Returns the region whose instances and endpoints exist here.
    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Returns the endpoint, without a slash at its end.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    async fn send(request: RequestBuilder) -> Result<Bytes, String> {
        let failed = |error: reqwest::Error| error.to_string();
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        let body = response.bytes().await.map_err(failed)?;
        if !status.is_success() {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&body)));
        }
        Ok(body)
    }

    /// Forwards a client's request and returns the answer.
    pub(crate) async fn pass(
        &self,
        method: Method,
        uri: &Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes), String> {
        let failed = |error: reqwest::Error| error.to_string();
        let request = self
            .client
            .request(method, format!("{}{uri}", self.endpoint))
            .headers(without_framing(headers))
            .body(body);
        let response = request.send().await.map_err(failed)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.map_err(failed)?;
        Ok((status, without_framing(headers), body))
    }

    /// Fetches an object.
    pub(crate) async fn object(&self, bucket: &str, key: &str) -> Result<Bytes, String> {
        let url = format!("{}/{bucket}/{key}", self.endpoint);
        let request = self.client.get(url);
        Self::send(request.header("authorization", authorization("s3", "us-east-1"))).await
    }

    /// Puts the log of an ended invocation into its stream.
    pub(crate) async fn put_lines(
        &self,
        region: &str,
        group: &str,
        lines: &InvocationLines,
    ) -> Result<(), String> {
        let (first, last) = (milliseconds(lines.started_s), milliseconds(lines.ended_s));
        // Lines up to START have the invocation's start as their time, all others its end.
        let start = lines
            .lines
            .iter()
            .position(|line| line.starts_with("START "));
        let events: Vec<Value> = (lines.lines.iter().enumerate())
            .map(|(index, line)| {
                let at = if Some(index) <= start { first } else { last };
                json!({ "timestamp": at, "message": line })
            })
            .collect();
        let stream = lines.stream.as_str();
        let create = json!({ "logGroupName": group, "logStreamName": stream });
        match self.logs(region, "CreateLogStream", create).await {
            Err(error) if !error.contains("ResourceAlreadyExists") => return Err(error),
            _ => {}
        }
        let put = json!({ "logGroupName": group, "logStreamName": stream, "logEvents": events });
        self.logs(region, "PutLogEvents", put).await
    }

    async fn logs(&self, region: &str, operation: &str, body: Value) -> Result<(), String> {
        let request = self
            .post("logs", region)
            .header("x-amz-target", format!("Logs_20140328.{operation}"))
            .header("content-type", "application/x-amz-json-1.1")
            .body(body.to_string());
        Self::send(request).await.map(drop)
    }

    fn post(&self, service: &str, region: &str) -> RequestBuilder {
        self.client
            .post(format!("{}/", self.endpoint))
            .header("authorization", authorization(service, region))
    }

    async fn ec2(&self, region: &str, query: &str) -> Result<String, String> {
        let request = self
            .post("ec2", region)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("Version=2016-11-15&{query}"));
        let answer = Self::send(request).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Returns the ids of running instances, with their types.
    pub(crate) async fn running_instances(
        &self,
        region: &str,
    ) -> Result<Vec<(String, String)>, String> {
        let query = "Action=DescribeInstances&Filter.1.Name=instance-state-name&\
                     Filter.1.Value.1=running";
        let answer = self.ec2(region, query).await?;
        let ids = elements(&answer, "instanceId").map(str::to_owned);
        let types = elements(&answer, "instanceType").map(str::to_owned);
        Ok(ids.zip(types).collect())
    }

    /// Returns an instance's user data, encoded in Base64.
    pub(crate) async fn user_data(&self, region: &str, id: &str) -> Result<String, String> {
        let query = format!("Action=DescribeInstanceAttribute&Attribute=userData&InstanceId={id}");
        let answer = self.ec2(region, &query).await?;
        Ok(elements(&answer, "value")
            .next()
            .unwrap_or_default()
            .to_owned())
    }

    /// Returns the ids, elements of that name, of what an action of EC2 finds by filters.
    pub(crate) async fn ids(
        &self,
        region: &str,
        action: &str,
        filters: &[(String, Vec<String>)],
        element: &str,
    ) -> Result<Vec<String>, String> {
        let mut query = format!("Action={action}");
        for (number, (name, values)) in (1..).zip(filters) {
            query += &format!("&Filter.{number}.Name={name}");
            for (index, value) in (1..).zip(values) {
                query += &format!("&Filter.{number}.Value.{index}={value}");
            }
        }
        let answer = self.ec2(region, &query).await?;
        Ok(elements(&answer, element).map(str::to_owned).collect())
    }

    /// Returns the ids of interface endpoints that exist.
    pub(crate) async fn interface_endpoints(&self, region: &str) -> Result<Vec<String>, String> {
        let query = "Action=DescribeVpcEndpoints&Filter.1.Name=vpc-endpoint-type&\
                     Filter.1.Value.1=Interface&Filter.2.Name=vpc-endpoint-state&\
                     Filter.2.Value.1=available";
        let answer = self.ec2(region, query).await?;
        Ok(elements(&answer, "vpcEndpointId")
            .map(str::to_owned)
            .collect())
    }

    /// Removes VPC endpoints.
    pub(crate) async fn remove_endpoints(
        &self,
        region: &str,
        ids: &[String],
    ) -> Result<(), String> {
        let mut query = "Action=DeleteVpcEndpoints".to_owned();
        for (index, id) in ids.iter().enumerate() {
            query += &format!("&VpcEndpointId.{}={id}", index + 1);
        }
        self.ec2(region, &query).await.map(drop)
    }

    /// Terminates an instance.
    pub(crate) async fn terminate(&self, region: &str, id: &str) -> Result<(), String> {
        let query = format!("Action=TerminateInstances&InstanceId.1={id}");
        self.ec2(region, &query).await.map(drop)
    }
}

/// Removes headers that apply to a single connection.
fn without_framing(mut headers: HeaderMap) -> HeaderMap {
    for name in [
        header::HOST,
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::EXPECT,
    ] {
        headers.remove(name);
    }
    headers
}

/// Returns an authorization header with an invalid signature: emulators read service
/// and region from its scope, and do not check it.
pub(crate) fn authorization(service: &str, region: &str) -> String {
    let scope = format!("emulator/20260101/{region}/{service}/aws4_request");
    format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0")
}

fn milliseconds(seconds: f64) -> i64 {
    (seconds * 1e3).round() as i64
}

/// Returns the texts of all XML elements with that name, which must contain text alone.
fn elements<'a>(document: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts: Vec<&str> = document.split(open.as_str()).skip(1).collect();
    let text = move |part: &'a str| part.split(close.as_str()).next();
    parts.into_iter().filter_map(text)
}
