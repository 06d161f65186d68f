//! The client end of torch's store protocol.
//!
//! A request uses a connection alone, from a small pool: a thread that waits does not hold up the others, and a
//! connection on which anything went wrong is thrown away instead of being resynchronised.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use oneflow_base::{Error, Result};

use super::{CLIENT, MAX_KEY, MAX_VALUE, SERVER, Server, Store, code};
use crate::auth::{Access, HOW, NONCE, TAG, nonce};
use crate::interrupt;
use crate::security::Security;
use crate::stream::{Credentials, Load, Stream};
use crate::tls::{Fault, NEEDS_TLS, NO_TLS};

/// A store on another process, or on this one when it was made by [`TcpStore::host`].
pub struct TcpStore {
    address: SocketAddr,
    timeout: Duration,
    idle: Mutex<Vec<Connection>>,
    /// The interface on which the server is reached: where this process can be reached by the others.
    local_ip: IpAddr,
    /// Of the job, where the server is one of its own.
    credentials: Option<Credentials>,
    /// Lives as long as the store that started it, or until that is closed.
    server: Mutex<Option<Server>>,
}

impl TcpStore {
    /// Connects to a running server, torch's or one of ours that asks for no secret; keeps trying (also the name lookup)
    /// until `timeout`, since servers start late.
    pub fn connect(host: &str, port: u16, timeout: Duration) -> Result<TcpStore> {
        Self::find(host, port, timeout, None, true)
    }

    /// As [`TcpStore::connect`], to a server of this job: where there is a secret, both ends prove that they know it, and with TLS
    /// everything is encrypted.
    pub fn connect_as(host: &str, port: u16, timeout: Duration, security: &Security) -> Result<TcpStore> {
        Self::find(host, port, timeout, shown(security), false)
    }

    /// As [`TcpStore::connect_as`], where the server may also be another program's, which is not trusted then. A job with TLS
    /// does not talk to those: they have none.
    pub fn connect_to_any(host: &str, port: u16, timeout: Duration, security: &Security) -> Result<TcpStore> {
        Self::find(host, port, timeout, shown(security), security.tls.is_none())
    }

    fn find(
        host: &str,
        port: u16,
        timeout: Duration,
        credentials: Option<Credentials>,
        foreign: bool,
    ) -> Result<TcpStore> {
        let deadline = after(timeout);
        let mut pause = Duration::from_millis(10);
        // Since when a server refuses this process, and its words.
        let mut refused: Option<(Instant, String)> = None;
        loop {
            let cause = match resolve(host, port) {
                Err(cause) => cause,
                Ok(addresses) => {
                    let mut cause = String::new();
                    for address in addresses {
                        match Self::knock(address, deadline, credentials.as_ref(), foreign) {
                            Ok((connection, shown)) => return Self::with(connection, address, timeout, shown, None),
                            Err(e) => {
                                cause = e.to_string();
                                refused = match e.kind() {
                                    ErrorKind::PermissionDenied | ErrorKind::Unsupported => {
                                        Some((refused.map_or_else(Instant::now, |(since, _)| since), cause.clone()))
                                    }
                                    _ if Fault::of(&e).is_some() => {
                                        let since = refused.map_or_else(Instant::now, |(since, _)| since);
                                        Some((since, format!("it {cause}")))
                                    }
                                    ErrorKind::TimedOut => refused,
                                    _ => None,
                                };
                            }
                        }
                    }
                    cause
                }
            };
            let left = deadline.saturating_duration_since(Instant::now());
            // For a moment it may have been the store of the job before on this port.
            if let Some((since, cause)) = &refused
                && (left.is_zero() || since.elapsed() > REFUSED)
            {
                return Err(Error::runtime(format!("store at {host}:{port}: {cause}")));
            }
            if left.is_zero() {
                return Err(Error::runtime(format!(
                    "store: cannot connect to {host}:{port} within {timeout:?}: {cause}; is rank 0 (or the launcher) \
                     running there?"
                )));
            }
            // Processes that start together should not knock together.
            let jitter = Duration::from_millis(u64::from(std::process::id() % 10));
            crate::interrupt::pause((pause + jitter).min(left))?;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// One connection, and what was shown on it.
    fn knock(
        address: SocketAddr,
        deadline: Instant,
        shown: Option<&Credentials>,
        foreign: bool,
    ) -> std::io::Result<(Connection, Option<Credentials>)> {
        let limit = if foreign { deadline.min(after(FOREIGN)) } else { deadline };
        match Connection::open(address, if shown.is_some() { limit } else { deadline }, shown) {
            // A server of torch's hangs up at words that it does not know.
            Err(e) if e.kind() == ErrorKind::Unsupported && shown.is_some() && foreign => {
                Ok((Connection::open(address, deadline, None)?, None))
            }
            other => Ok((other?, shown.cloned())),
        }
    }

    /// Starts a server at this address, which must be one of this host's, for processes of this host, and connects to it.
    /// Port 0 takes a free one.
    pub fn host(host: &str, port: u16, timeout: Duration) -> Result<TcpStore> {
        Self::host_as(host, port, timeout, &Access::OneHost.into())
    }

    /// As [`TcpStore::host`], for those whom `security` lets in.
    pub fn host_as(host: &str, port: u16, timeout: Duration, security: &Security) -> Result<TcpStore> {
        let addresses = resolve(host, port).map_err(|e| Error::runtime(format!("store: {e}")))?;
        let mut last = Error::runtime(format!("store: '{host}' has no address"));
        for address in addresses {
            match Server::bind_as(address, security.clone()) {
                Ok(server) => {
                    let (address, shown) = (server.address(), shown(security));
                    let connection = Connection::open(address, after(timeout), shown.as_ref())
                        .map_err(|e| Error::runtime(format!("store: cannot connect to {address}: {e}")))?;
                    return Self::with(connection, address, timeout, shown, Some(server));
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    fn with(
        first: Connection,
        address: SocketAddr,
        timeout: Duration,
        credentials: Option<Credentials>,
        server: Option<Server>,
    ) -> Result<TcpStore> {
        let local_ip = first.stream.local_addr().map_err(|e| Error::runtime(format!("store: {e}")))?.ip();
        Ok(TcpStore {
            address,
            timeout,
            idle: Mutex::new(vec![first]),
            local_ip,
            credentials,
            server: Mutex::new(server),
        })
    }

    /// Where the server is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn request<R>(
        &self,
        what: &str,
        timeout: Duration,
        f: impl FnOnce(&mut Connection) -> std::io::Result<R>,
    ) -> Result<R> {
        let deadline = after(timeout);
        let run = || {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut connection = match idle {
                Some(connection) => connection,
                None => Connection::open(self.address, deadline, self.credentials.as_ref())?,
            };
            connection.deadline = deadline;
            let result = f(&mut connection)?;
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            Ok(result)
        };
        run().map_err(|e: std::io::Error| {
            let cause = match e.kind() {
                ErrorKind::TimedOut | ErrorKind::WouldBlock => format!("no answer within {timeout:?}"),
                ErrorKind::UnexpectedEof => "the server closed the connection".to_owned(),
                _ => e.to_string(),
            };
            Error::runtime(format!("store at {}: {what}: {cause}", self.address))
        })
    }
}

impl Store for TcpStore {
    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        limits(key, value)?;
        self.request(&format!("set '{key}'"), self.timeout, |c| {
            c.send(Message::new(code::SET).key(key).bytes(value))?;
            // Set has no answer; the echo tells that the server has taken it.
            c.ping()
        })
    }

    fn get(&self, key: &str) -> Result<Vec<u8>> {
        self.wait(&[key], self.timeout)?;
        self.request(&format!("get '{key}'"), self.timeout, |c| {
            c.send(Message::new(code::GET).key(key))?;
            c.read_bytes()
        })
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        limits(key, &[])?;
        self.request(&format!("add '{key}'"), self.timeout, |c| {
            c.send(Message::new(code::ADD).key(key).u64(amount as u64))?;
            c.read_i64()
        })
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        limits(key, expected)?;
        limits(key, desired)?;
        self.request(&format!("compare_set '{key}'"), self.timeout, |c| {
            c.send(Message::new(code::COMPARE_SET).key(key).bytes(expected).bytes(desired))?;
            c.read_bytes()
        })
    }

    fn append(&self, key: &str, value: &[u8]) -> Result<()> {
        limits(key, value)?;
        self.request(&format!("append '{key}'"), self.timeout, |c| {
            c.send(Message::new(code::APPEND).key(key).bytes(value))?;
            c.ping()
        })
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        self.request("check", self.timeout, |c| {
            c.send(Message::new(code::CHECK).keys(keys))?;
            match c.read_u8()? {
                code::YES => Ok(true),
                code::NO => Ok(false),
                other => Err(unexpected(other)),
            }
        })
    }

    fn wait(&self, keys: &[&str], timeout: Duration) -> Result<()> {
        keys.iter().try_for_each(|key| limits(key, &[]))?;
        // The answer to a cancelled wait gets time of its own.
        let came =
            self.request(&format!("wait for {keys:?}"), timeout.saturating_add(GRACE), |c| c.wait(keys, timeout))?;
        if came {
            return Ok(());
        }
        let missing: Vec<&&str> =
            keys.iter().take(64).filter(|key| !matches!(self.check(&[**key]), Ok(true))).collect();
        Err(Error::runtime(format!(
            "store at {}: timed out after {timeout:?} waiting for keys {missing:?}",
            self.address
        )))
    }

    fn delete(&self, key: &str) -> Result<bool> {
        limits(key, &[])?;
        self.request(&format!("delete '{key}'"), self.timeout, |c| {
            c.send(Message::new(code::DELETE).key(key))?;
            Ok(c.read_i64()? > 0)
        })
    }

    fn close(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(server);
    }

    fn note(&self) -> String {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.as_ref().map(Server::refusals).unwrap_or_default()
    }

    fn local_ip(&self) -> Option<IpAddr> {
        Some(self.local_ip)
    }

    fn num_keys(&self) -> Result<i64> {
        self.request("num_keys", self.timeout, |c| {
            c.send(Message::new(code::NUM_KEYS))?;
            c.read_i64()
        })
    }

    fn list_keys(&self) -> Result<Vec<String>> {
        self.request("list_keys", self.timeout, |c| {
            c.send(Message::new(code::LIST_KEYS))?;
            let (n, mut bytes, mut keys) = (c.read_i64()?, 0, Vec::new());
            for _ in 0..n {
                let key = c.read_bytes()?;
                bytes += key.len();
                if bytes > MAX_LISTED {
                    return Err(std::io::Error::new(
                        ErrorKind::InvalidData,
                        format!("the server lists keys of more than {MAX_LISTED} bytes"),
                    ));
                }
                let key = String::from_utf8_lossy(&key);
                keys.push(key.strip_prefix('/').unwrap_or(&key).to_owned());
            }
            Ok(keys)
        })
    }

    fn queue_push(&self, key: &str, value: &[u8]) -> Result<()> {
        limits(key, value)?;
        self.request(&format!("queue_push '{key}'"), self.timeout, |c| {
            c.send(Message::new(code::QUEUE_PUSH).key(key).bytes(value))?;
            c.ping()
        })
    }

    fn queue_pop(&self, key: &str, timeout: Option<Duration>) -> Result<Option<Vec<u8>>> {
        limits(key, &[])?;
        let end = after(timeout.unwrap_or_default());
        // A wait claims its value for the connection on which it was made.
        let popped =
            self.request(&format!("queue_pop '{key}'"), timeout.unwrap_or(self.timeout).saturating_add(GRACE), |c| {
                loop {
                    if timeout.is_some() && !c.wait(&[key], end.saturating_duration_since(Instant::now()))? {
                        return Ok(None);
                    }
                    c.deadline = after(GRACE);
                    c.send(Message::new(code::QUEUE_POP).key(key))?;
                    let value = if c.read_i64()? > 0 { Some(c.read_bytes()?) } else { None };
                    if value.is_some() || timeout.is_none() {
                        return Ok(value);
                    }
                }
            })?;
        match (popped, timeout) {
            (None, Some(timeout)) => Err(Error::runtime(format!(
                "store at {}: timed out after {timeout:?} waiting for a value of the queue '{key}'",
                self.address
            ))),
            (popped, _) => Ok(popped),
        }
    }

    fn queue_len(&self, key: &str) -> Result<i64> {
        limits(key, &[])?;
        self.request(&format!("queue_len '{key}'"), self.timeout, |c| {
            c.send(Message::new(code::QUEUE_LEN).key(key))?;
            c.read_i64()
        })
    }
}

/// Bytes of all keys of a store together that are accepted from a server.
const MAX_LISTED: usize = 64 << 20;
const GRACE: Duration = Duration::from_secs(5);
/// How long a refusal is asked again.
const REFUSED: Duration = Duration::from_secs(2);
/// How long a server may take to answer a question that only ours understand.
const FOREIGN: Duration = Duration::from_secs(5);

/// What a client shows to a server of its job, if anything.
fn shown(security: &Security) -> Option<Credentials> {
    (security.tls.is_some() || matches!(security.access, Access::Secret(_))).then(|| security.credentials())
}

struct Connection {
    stream: Stream,
    deadline: Instant,
    nonce: u32,
}

impl Connection {
    fn open(address: SocketAddr, deadline: Instant, shown: Option<&Credentials>) -> std::io::Result<Connection> {
        let socket = TcpStream::connect_timeout(&address, left(deadline)?)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(left(deadline)?))?;
        let stream = Stream::connected(socket, shown.and_then(|shown| shown.tls.as_ref()), Load::Words)?;
        // The first number of a connection is the process, as with PyTorch.
        let nonce = std::process::id().wrapping_sub(1);
        let mut connection = Connection { stream, deadline, nonce };
        if let Some(shown) = shown {
            connection.patiently(Stream::handshake).map_err(|e| match e.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                    let text = "it hung up at the first words of TLS, so it is not this job's own store; a store of another \
                                program, such as torchrun's, has no TLS";
                    std::io::Error::new(ErrorKind::Unsupported, text)
                }
                _ => e,
            })?;
            connection.prove(shown)?;
        }
        let mut hello = Message::new(code::VALIDATE);
        hello.0.extend_from_slice(&code::MAGIC.to_le_bytes());
        connection.send(hello)?;
        connection.ping()?;
        Ok(connection)
    }

    /// Both ends prove that they know the job's secret.
    fn prove(&mut self, shown: &Credentials) -> std::io::Result<()> {
        let key = self.stream.bound(&shown.key)?;
        let mine = nonce().map_err(std::io::Error::other)?;
        let mut message = Message::new(code::PROVE);
        message.0.extend_from_slice(&mine);
        self.send(message)?;
        let mut theirs = [0; NONCE];
        self.read_exact(&mut theirs).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::TimedOut => {
                let text = format!("it asks for no job secret, so it is not this job's own store; {HOW}");
                std::io::Error::new(ErrorKind::Unsupported, text)
            }
            _ => e,
        })?;
        if theirs == NEEDS_TLS {
            return Err(std::io::Error::new(ErrorKind::PermissionDenied, NO_TLS));
        }
        self.stream.send_all(&key.tag(CLIENT, &[&mine, &theirs]))?;
        let mut answer = [0; 1 + TAG];
        self.read_exact(&mut answer)?;
        let denied = |text: &str| Err(std::io::Error::new(ErrorKind::PermissionDenied, format!("{text}; {HOW}")));
        match answer[0] == code::YES {
            false if shown.tls.is_some() => {
                denied("it refused this process: their job secrets differ, or somebody is between them")
            }
            false => denied("it refused this process: their job secrets differ"),
            true if !key.proves(&answer[1..], SERVER, &[&mine, &theirs]) => {
                denied("it does not know this job's secret")
            }
            true => Ok(()),
        }
    }

    fn send(&mut self, message: Message) -> std::io::Result<()> {
        self.stream.socket().set_write_timeout(Some(left(self.deadline)?))?;
        self.stream.send_all(&message.0)
    }

    fn read_exact(&mut self, buf: &mut [u8]) -> std::io::Result<()> {
        let mut at = 0;
        if buf.is_empty() {
            return Ok(());
        }
        self.patiently(|stream| match stream.read(&mut buf[at..])? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            n => {
                at += n;
                Ok(at == buf.len())
            }
        })
    }

    /// Takes steps that each wait for the server, until one is the last.
    fn patiently(&self, mut step: impl FnMut(&Stream) -> std::io::Result<bool>) -> std::io::Result<()> {
        loop {
            self.stream.socket().set_read_timeout(Some(left(self.deadline)?.min(interrupt::PERIOD)))?;
            match step(&self.stream) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if interrupt::interrupted() {
                        return Err(std::io::Error::other(interrupt::CAUSE));
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Whether the keys came in time.
    fn wait(&mut self, keys: &[&str], timeout: Duration) -> std::io::Result<bool> {
        self.send(Message::new(code::WAIT).keys(keys))?;
        self.deadline = after(timeout);
        match self.read_u8() {
            Ok(code::YES) => return Ok(true),
            Ok(other) => return Err(unexpected(other)),
            Err(e) if !matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => return Err(e),
            Err(_) => {}
        }
        self.deadline = after(GRACE);
        self.send(Message::new(code::CANCEL_WAIT))?;
        // The keys may have come in this very moment: then two answers are on their way.
        let came = self.read_u8()? == code::YES;
        if came {
            self.read_u8()?;
        }
        Ok(came)
    }

    fn ping(&mut self) -> std::io::Result<()> {
        self.nonce = self.nonce.wrapping_add(1);
        let mut message = Message::new(code::PING);
        message.0.extend_from_slice(&self.nonce.to_le_bytes());
        self.send(message)?;
        let mut echo = [0; 4];
        self.read_exact(&mut echo)?;
        if u32::from_le_bytes(echo) == self.nonce {
            return Ok(());
        }
        if echo == NEEDS_TLS[..4] {
            return Err(std::io::Error::new(ErrorKind::PermissionDenied, NO_TLS));
        }
        let refusal = match echo {
            code::NEEDS_SECRET => "it refused this process, which has no job secret",
            code::NEEDS_ONE_HOST => "it refused this process, which is on another host and has no job secret",
            _ => "",
        };
        if !refusal.is_empty() {
            return Err(std::io::Error::new(ErrorKind::PermissionDenied, format!("{refusal}; {HOW}")));
        }
        Err(std::io::Error::new(ErrorKind::InvalidData, "this is not a store: it did not return our greeting"))
    }

    fn read_u8(&mut self) -> std::io::Result<u8> {
        let mut byte = [0];
        self.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn read_i64(&mut self) -> std::io::Result<i64> {
        let mut word = [0; 8];
        self.read_exact(&mut word)?;
        Ok(i64::from_le_bytes(word))
    }

    fn read_bytes(&mut self) -> std::io::Result<Vec<u8>> {
        let len = self.read_i64()? as u64;
        if len > MAX_VALUE as u64 {
            return Err(std::io::Error::new(
                ErrorKind::InvalidData,
                format!("the server announces a value of {len} bytes; at most {MAX_VALUE} are accepted"),
            ));
        }
        let mut value = vec![0; len as usize];
        self.read_exact(&mut value)?;
        Ok(value)
    }
}

/// A request under construction.
struct Message(Vec<u8>);

impl Message {
    fn new(code: u8) -> Message {
        Message(vec![code])
    }
    fn u64(mut self, value: u64) -> Message {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
    fn bytes(self, value: &[u8]) -> Message {
        let mut message = self.u64(value.len() as u64);
        message.0.extend_from_slice(value);
        message
    }
    /// Keys travel with a leading slash.
    fn key(self, key: &str) -> Message {
        let mut message = self.u64(key.len() as u64 + 1);
        message.0.push(b'/');
        message.0.extend_from_slice(key.as_bytes());
        message
    }
    fn keys(self, keys: &[&str]) -> Message {
        keys.iter().fold(self.u64(keys.len() as u64), |message, key| message.key(key))
    }
}

fn limits(key: &str, value: &[u8]) -> Result<()> {
    if key.len() >= MAX_KEY || value.len() > MAX_VALUE {
        return Err(Error::value(format!(
            "store: a key of {} bytes with a value of {} bytes; at most {} and {MAX_VALUE} are accepted",
            key.len(),
            value.len(),
            MAX_KEY - 1
        )));
    }
    Ok(())
}

fn unexpected(answer: u8) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, format!("unexpected answer {answer:#04x}"))
}

fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    match (host, port).to_socket_addrs() {
        Ok(addresses) => Ok(addresses.collect()),
        Err(e) => Err(format!("cannot resolve '{host}': {e}")),
    }
}

fn left(deadline: Instant) -> std::io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

fn after(timeout: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(timeout).unwrap_or(now + Duration::from_secs(365 * 86_400))
}
