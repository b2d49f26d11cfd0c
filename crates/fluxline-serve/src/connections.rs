//! Limits of connections, so that strangers who connect and say nothing stop nobody.
//!
//! One rule keeps the number bounded: when there are too many connections, one is closed. It is the
//! oldest without any answer, or else the one whose last answer is the oldest. So a browser that
//! follows snapshots stays, and requests that trickle in byte by byte make room. A connection
//! without an answer for [`Limits::quiet`] is closed in any case: a reader that takes nothing holds
//! no memory for longer.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

/// Pause after a connection could not be accepted: there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// The longest time without an answer, after which a connection is closed.
    pub quiet: Duration,
}

impl Default for Limits {
    /// Returns 256 connections and 20 s.
    fn default() -> Limits {
        Limits { connections: 256, quiet: Duration::from_secs(20) }
    }
}

/// A listening socket with limits.
pub struct LimitedListener {
    listener: TcpListener,
    limits: Limits,
    began: Instant,
    open: Arc<Mutex<Open>>,
}

/// The open connections, by number.
#[derive(Default)]
struct Open {
    next: u64,
    connections: BTreeMap<u64, Entry>,
}

/// The listener's share of a connection.
struct Entry {
    /// The time of its last answer \[ms since the listener began\]; 0 before the first.
    answered: Arc<AtomicU64>,
    _close: oneshot::Sender<()>,
}

impl LimitedListener {
    pub fn new(listener: TcpListener, limits: Limits) -> LimitedListener {
        LimitedListener { listener, limits, began: Instant::now(), open: Arc::default() }
    }

    /// Takes a connection in, and closes the quietest one when there are too many.
    fn admit(&self, stream: TcpStream) -> Connection {
        let (close, closed) = oneshot::channel();
        let answered = Arc::new(AtomicU64::new(0));
        let mut open = lock(&self.open);
        while open.connections.len() >= self.limits.connections.max(1) {
            open.close_quietest();
        }
        let number = open.next;
        open.next += 1;
        open.connections.insert(number, Entry { answered: answered.clone(), _close: close });
        Connection {
            stream,
            number,
            answered,
            began: self.began,
            accepted: Instant::now(),
            quiet: self.limits.quiet,
            closed,
            deadline: Box::pin(tokio::time::sleep(self.limits.quiet)),
            open: self.open.clone(),
        }
    }
}

impl Open {
    fn close_quietest(&mut self) {
        let last = |entry: &Entry| entry.answered.load(Ordering::Relaxed);
        // Of equal ones, the first is the oldest.
        let quietest = self.connections.iter().min_by_key(|(_, entry)| last(entry));
        if let Some(number) = quietest.map(|(number, _)| *number) {
            // The sender's end is dropped, which the connection sees.
            self.connections.remove(&number);
        }
    }
}

impl Listener for LimitedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => return (self.admit(stream), address),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The address of this computer at which a connection arrived.
#[derive(Clone, Copy, Debug)]
pub struct ArrivedAt(pub IpAddr);

impl Connected<IncomingStream<'_, LimitedListener>> for ArrivedAt {
    fn connect_info(stream: IncomingStream<'_, LimitedListener>) -> ArrivedAt {
        let address = stream.io().stream.local_addr();
        ArrivedAt(address.map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.ip()))
    }
}

/// A connection that ends when it is quiet for too long, or when its room is needed.
pub struct Connection {
    stream: TcpStream,
    number: u64,
    /// The time of its last answer \[ms since the listener began\]; 0 before the first.
    answered: Arc<AtomicU64>,
    began: Instant,
    accepted: Instant,
    quiet: Duration,
    closed: oneshot::Receiver<()>,
    deadline: Pin<Box<Sleep>>,
    open: Arc<Mutex<Open>>,
}

impl Connection {
    /// Fails once the connection is to end; otherwise the task is woken then.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let over = |reason| Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason));
        if Pin::new(&mut self.closed).poll(context).is_ready() {
            return over("its room is needed");
        }
        while self.deadline.as_mut().poll(context).is_ready() {
            let answered = Duration::from_millis(self.answered.load(Ordering::Relaxed));
            let deadline = (self.began + answered).max(self.accepted) + self.quiet;
            if deadline <= Instant::now() {
                return over("it was quiet for too long");
            }
            self.deadline.as_mut().reset(deadline);
        }
        Ok(())
    }

    /// Notes an answer, as far as the peer takes it.
    fn answered(&self, result: &io::Result<usize>) {
        if matches!(result, Ok(bytes) if *bytes > 0) {
            let now = self.began.elapsed().as_millis() as u64;
            self.answered.store(now.max(1), Ordering::Relaxed);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.open).connections.remove(&self.number);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let result = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.answered(&result);
        Poll::Ready(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let result = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        self.answered(&result);
        Poll::Ready(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}
