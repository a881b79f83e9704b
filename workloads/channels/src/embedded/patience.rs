//! Connections of HTTP clients that have to send the headers of their first request in time:
//! one that trickles bytes would hold its connection without end.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep_until};

/// Time from the connection to the end of the headers of its first request.
const PATIENCE: Duration = Duration::from_secs(30);

/// End of a request's headers.
const END: &[u8] = b"\r\n\r\n";

/// A listener whose connections break if the first headers do not arrive in time.
pub(super) struct PatientListener {
    listener: TcpListener,
    patience: Duration,
}

impl PatientListener {
    pub(super) fn new(listener: TcpListener) -> Self {
        let patience = PATIENCE;
        Self { listener, patience }
    }
}

impl Listener for PatientListener {
    type Io = PatientStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (PatientStream::new(stream, self.patience), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection on which the first headers have a deadline. Bodies, and pauses between
/// requests, have none.
pub(super) struct PatientStream {
    stream: TcpStream,
    /// Deadline of the first headers; none once they are there.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes of [`END`] that the input so far ends with.
    matched: usize,
}

impl PatientStream {
    fn new(stream: TcpStream, patience: Duration) -> Self {
        Self {
            stream,
            deadline: Some(Box::pin(sleep_until(Instant::now() + patience))),
            matched: 0,
        }
    }

    /// Notes bytes that arrived while headers were awaited.
    fn note(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.matched = match self.matched {
                matched if *byte == END[matched] => matched + 1,
                _ => usize::from(*byte == END[0]),
            };
            if self.matched == END.len() {
                (self.deadline, self.matched) = (None, 0);
                return;
            }
        }
    }
}

impl AsyncRead for PatientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Some(deadline) = &mut this.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            let problem = "the headers of a request did not arrive in time";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem)));
        }
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut this.stream).poll_read(context, buffer));
        if this.deadline.is_some() {
            let bytes = buffer.filled()[before..].to_vec();
            this.note(&bytes);
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for PatientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A connection on which a client has sent this.
    async fn sent(bytes: &[u8], patience: Duration) -> (PatientStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut patient = PatientListener { listener, patience };
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(bytes).await.unwrap();
        let (served, _) = Listener::accept(&mut patient).await;
        (served, client)
    }

    #[tokio::test]
    async fn headers_have_a_deadline_and_bodies_have_none() {
        let mut buffer = [0; 64];
        let (mut served, _client) = sent(b"PUT / HTTP/1.1\r\n\r", Duration::ZERO).await;
        let error = loop {
            match served.read(&mut buffer).await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);

        let long = Duration::from_secs(3600);
        let (mut served, _client) = sent(b"PUT / HTTP/1.1\r\n\r\nbo", long).await;
        served.read_exact(&mut buffer[..20]).await.unwrap();
        assert!(served.deadline.is_none());
    }
}
