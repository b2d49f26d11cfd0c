//! The two ends on plain TCP, as NetPIPE's TCP module does it: blocking sockets, TCP_NODELAY, the
//! host's own buffers. A reference to compare with NPtcp itself.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::buffer::{CacheFlush, MessageId};
use super::{Measured, Mode, Task, Way};
use crate::Error;
use crate::environment::{Conversation, Service};
use crate::role::{self, Side};

/// The service of the far end.
pub const SERVICE: Service = Service { name: "tcp-exchange", run: serve };
/// A read or write that takes longer has no other side any more.
const SOCKET_LIMIT: Duration = Duration::from_secs(10);
/// The far end waits this long for the next task.
const TASK_LIMIT: Duration = Duration::from_secs(30);
/// The longest message that the far end allocates memory for \[byte\].
const BYTES_MAX: u64 = 64 << 20;

/// One end.
pub struct End {
    stream: TcpStream,
    side: Side,
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
        let task = Task::read(&order)?;
        if task.bytes > BYTES_MAX || task.way != Way::Put {
            return Err(Error::Input(format!("an exchange over TCP cannot be {task:?}")));
        }
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
    let mut near = end.run(task)?;
    let heard = conversation.receive(SOCKET_LIMIT)?;
    let Some(mut far) = heard.and_then(|value| serde_json::from_value::<Measured>(value).ok())
    else {
        return Err(Error::PeerGone { how: "it says no result".to_owned() });
    };
    let compared_bytes = near.compared_bytes + far.compared_bytes;
    (near.compared_bytes, far.compared_bytes) = (compared_bytes, compared_bytes);
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
        Ok(End { stream, side })
    }

    fn run(&mut self, task: &Task) -> Result<Measured, Error> {
        self.exchange(task).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::WouldBlock => Error::PeerGone { how: format!("TCP: {error}") },
            io::ErrorKind::InvalidData => Error::Defect { what: error.to_string() },
            _ => Error::host("TCP")(error),
        })
    }

    fn exchange(&mut self, task: &Task) -> io::Result<Measured> {
        let mut buffers = Buffers::new(task);
        let mut trips = role::times();
        let mut measured = Measured::default();
        for trial in 0..task.trials {
            buffers.flush.flush();
            self.sync()?;
            let began = Instant::now();
            let mut before = began;
            for number in 0..task.repeats {
                self.repeat(task, &mut buffers, MessageId { trial, number })?;
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
        measured.compared_bytes = buffers.compared_bytes;
        Ok(measured)
    }

    /// Sends and receives one message, in the order of the mode and the side.
    fn repeat(&mut self, task: &Task, buffers: &mut Buffers, id: MessageId) -> io::Result<()> {
        match (task.mode, self.side) {
            (Mode::PingPong | Mode::Bidirectional, Side::Near)
            | (Mode::Bidirectional, Side::Far) => {
                self.stream.write_all(buffers.outgoing(id))?;
                self.receive(buffers, id)
            }
            (Mode::PingPong, Side::Far) => {
                self.receive(buffers, id)?;
                self.stream.write_all(buffers.outgoing(id))
            }
            (Mode::Stream, Side::Near) => self.stream.write_all(buffers.outgoing(id)),
            (Mode::Stream, Side::Far) => self.receive(buffers, id),
        }
    }

    fn receive(&mut self, buffers: &mut Buffers, id: MessageId) -> io::Result<()> {
        self.stream.read_exact(buffers.incoming(id))?;
        buffers.compare(id)
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

/// The memory of one end. A warm exchange sends from the buffer that it receives into, as NetPIPE.
struct Buffers {
    task: Task,
    received: Vec<u8>,
    /// Empty: messages are sent from `received`.
    sent: Vec<u8>,
    flush: CacheFlush,
    compared_bytes: u64,
}

impl Buffers {
    fn new(task: &Task) -> Buffers {
        let pool = || vec![b'a'; task.pool_bytes() as usize];
        let sent = if task.cold || task.checked { pool() } else { Vec::new() };
        let flush = CacheFlush::new(task);
        Buffers { task: *task, received: pool(), sent, flush, compared_bytes: 0 }
    }

    /// Returns the next message to send; a checked one is written before.
    fn outgoing(&mut self, id: MessageId) -> &[u8] {
        let place = self.place(id);
        let pool = if self.sent.is_empty() { &mut self.received } else { &mut self.sent };
        let message = &mut pool[place];
        if self.task.checked {
            let mut pattern = id.pattern();
            message.iter_mut().enumerate().for_each(|(offset, byte)| *byte = pattern(offset));
        }
        message
    }

    /// Returns the place of the next message to receive.
    fn incoming(&mut self, id: MessageId) -> &mut [u8] {
        let place = self.place(id);
        &mut self.received[place]
    }

    /// Compares a checked message that was received.
    fn compare(&mut self, id: MessageId) -> io::Result<()> {
        if self.task.checked {
            let checked = id.check(self.incoming(id));
            checked.map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what))?;
            self.compared_bytes += self.task.bytes;
        }
        Ok(())
    }

    fn place(&self, id: MessageId) -> std::ops::Range<usize> {
        let from = self.task.offset(id.number);
        from as usize..(from + self.task.bytes) as usize
    }
}
