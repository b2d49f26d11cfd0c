//! The two ends on plain TCP, as NetPIPE's TCP module does it: blocking sockets, TCP_NODELAY, the
//! host's own buffers. A reference to compare with NPtcp itself.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Measured, Mode, Task};
use crate::Error;
use crate::environment::{Conversation, Service};
use crate::role::{self, Side};

/// The service of the far end.
pub const SERVICE: Service = Service { name: "tcp-exchange", run: serve };
/// A read or write that takes longer has no other side any more.
const SOCKET_LIMIT: Duration = Duration::from_secs(10);
/// The far end waits this long for the next task.
const TASK_LIMIT: Duration = Duration::from_secs(30);

/// One end.
pub struct End {
    stream: TcpStream,
    side: Side,
    buffer: Vec<u8>,
}

/// The far end: listens on the address given, sends its port, and does tasks until the near end
/// sends null.
fn serve(parameters: &Value, conversation: &mut dyn Conversation) -> Result<Value, Error> {
    let address = parameters["address"].as_str().and_then(|text| text.parse::<IpAddr>().ok());
    let Some(address) = address else {
        return Err(Error::Input("a TCP exchange needs an address".to_owned()));
    };
    let host = || Error::host(format!("listening on {address}"));
    let listener = TcpListener::bind(SocketAddr::new(address, 0)).map_err(host())?;
    let port = listener.local_addr().map_err(host())?.port();
    conversation.send(&json!({ "port": port }))?;
    let mut end = End::new(accept(&listener, conversation)?, Side::Far)?;
    while let Some(order) = conversation.receive(TASK_LIMIT)? {
        if order.is_null() {
            break;
        }
        let task: Task = serde_json::from_value(order)
            .map_err(|error| Error::Input(format!("a task: {error}")))?;
        conversation.send(&serde_json::to_value(end.run(&task)?).unwrap_or_default())?;
    }
    Ok(Value::Null)
}

fn accept(listener: &TcpListener, conversation: &mut dyn Conversation) -> Result<TcpStream, Error> {
    listener.set_nonblocking(true).map_err(Error::host("listening"))?;
    let began = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                return Err(Error::host("listening")(error));
            }
            Err(_) if conversation.is_over() || began.elapsed() > SOCKET_LIMIT => {
                return Err(Error::PeerGone { how: "it did not connect".to_owned() });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Connects the near end to the far end, which sends its port.
pub fn connect(address: IpAddr, conversation: &mut dyn Conversation) -> Result<End, Error> {
    let answer = conversation.receive(SOCKET_LIMIT)?.unwrap_or_default();
    let port = answer["port"].as_u64().and_then(|port| u16::try_from(port).ok());
    let Some(port) = port else {
        return Err(Error::PeerGone { how: "it sent no port".to_owned() });
    };
    let stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), SOCKET_LIMIT);
    End::new(stream.map_err(Error::host("connecting by TCP"))?, Side::Near)
}

/// Runs one task at both ends. Returns the result of the near end, or for a stream of the far end.
pub fn measure(
    end: &mut End,
    task: &Task,
    conversation: &mut dyn Conversation,
) -> Result<Measured, Error> {
    conversation.send(&serde_json::to_value(task).unwrap_or_default())?;
    let near = end.run(task)?;
    let heard = conversation.receive(SOCKET_LIMIT)?;
    let Some(far) = heard.and_then(|value| serde_json::from_value::<Measured>(value).ok()) else {
        return Err(Error::PeerGone { how: "it says no result".to_owned() });
    };
    Ok(if task.mode == Mode::Stream { far } else { near })
}

impl End {
    fn new(stream: TcpStream, side: Side) -> Result<End, Error> {
        let set = || {
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(SOCKET_LIMIT))?;
            stream.set_write_timeout(Some(SOCKET_LIMIT))
        };
        set().map_err(Error::host("a TCP socket"))?;
        Ok(End { stream, side, buffer: Vec::new() })
    }

    fn run(&mut self, task: &Task) -> Result<Measured, Error> {
        self.exchange(task).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::WouldBlock => Error::PeerGone { how: format!("TCP: {error}") },
            _ => Error::host("TCP")(error),
        })
    }

    fn exchange(&mut self, task: &Task) -> io::Result<Measured> {
        self.buffer.clear();
        self.buffer.resize(task.bytes as usize, b'a');
        let mut trips = role::times();
        let mut measured = Measured::default();
        for _ in 0..task.trials {
            self.sync()?;
            let began = Instant::now();
            let mut before = began;
            for _ in 0..task.repeats {
                match (task.mode, self.side) {
                    (Mode::PingPong | Mode::Bidirectional, Side::Near)
                    | (Mode::Bidirectional, Side::Far) => {
                        self.send()?;
                        self.stream.read_exact(&mut self.buffer)?;
                    }
                    (Mode::PingPong, Side::Far) => {
                        self.stream.read_exact(&mut self.buffer)?;
                        self.send()?;
                    }
                    (Mode::Stream, Side::Near) => self.send()?,
                    (Mode::Stream, Side::Far) => self.stream.read_exact(&mut self.buffer)?,
                }
                let now = Instant::now();
                trips.saturating_record((now.duration_since(before).as_nanos() as u64).max(1));
                before = now;
            }
            measured.seconds.push(began.elapsed().as_secs_f64() / task.repeats as f64);
        }
        // One read of a stream may return several messages: the time between them says nothing.
        if task.mode == Mode::PingPong {
            let at = |part| trips.value_at_quantile(part);
            measured.repeat_ns = Some([at(0.5), at(0.99), at(0.999), trips.max()]);
        }
        Ok(measured)
    }

    fn send(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.buffer)
    }

    /// A word there and back, which nobody times. Source: NetPIPE's Sync.
    fn sync(&mut self) -> io::Result<()> {
        let mut word = *b"SyncMe";
        if self.side == Side::Near {
            self.stream.write_all(&word)?;
            return self.stream.read_exact(&mut word);
        }
        self.stream.read_exact(&mut word)?;
        self.stream.write_all(&word)
    }
}
