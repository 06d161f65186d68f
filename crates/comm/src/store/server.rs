//! The server end of torch's store protocol: one thread, one poll loop, nothing that a client sends can block it.
//!
//! It listens only where it is told to, and serves those whom it may let in (`Security`): who knows the job's secret, or
//! without one processes of this host; with TLS, over nothing else. Lengths are checked before anything is kept, what all
//! clients make it hold is bounded, and a client that breaks the protocol loses its connection.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::auth::{Access, HOW, Key, NONCE, TAG, nonce};
use crate::security::Security;
use crate::sockets::timespec;
use crate::stream::{Load, Stream};
use crate::tls::{Fault, NEEDS_PLAIN, is_hello};
use oneflow_base::{Error, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::table::{Claim, Table};
use super::{CLIENT, MAX_KEY, MAX_KEYS, MAX_VALUE, SERVER, code};

const MAX_CONNECTIONS: usize = 65_536;
/// Connections that have not said a valid word yet.
const MAX_STRANGERS: usize = 1024;
/// How long they may take for it, and how long a client may take for the rest of a request.
const PATIENCE: Duration = Duration::from_secs(10);
const SLOW: Duration = Duration::from_secs(60);
/// How often patience is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Answers a client has not read yet.
const MAX_UNREAD: usize = 64 << 20;
/// The longest request: many keys with values. Only what was received is held.
const MAX_REQUEST: usize = 64 << 20;
/// What a client may send before it is let in and has said which protocol it speaks. Its first requests may come along.
const MAX_OPENING: usize = 1 << 20;
/// Unfinished requests and unread answers of all clients together.
const MAX_HELD: usize = 128 << 20;
/// Reads of 64 KiB from a client before others have their turn.
const RECEIVE_TURNS: usize = 64;
/// How long nobody is let in once descriptors have run out.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// A running server; it stops when this is dropped.
pub struct Server {
    address: SocketAddr,
    refused: Refused,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// For processes of this host.
    pub fn bind(address: SocketAddr) -> Result<Server> {
        Server::bind_as(address, Access::OneHost.into())
    }

    /// For those whom `security` lets in.
    pub fn bind_as(mut address: SocketAddr, security: Security) -> Result<Server> {
        if address.ip().is_unspecified() {
            match (&security.access, address) {
                (Access::OneHost, SocketAddr::V4(_)) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
                (Access::OneHost, SocketAddr::V6(_)) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
                _ => {
                    return Err(Error::value(format!(
                        "store: {} stands for every interface of this host: give the address of the one on which the ranks \
                         reach it",
                        address.ip()
                    )));
                }
            }
        }
        let fail = |e: std::io::Error| {
            let hint = match e.kind() {
                ErrorKind::AddrInUse => "; another process has the port: choose a free MASTER_PORT",
                ErrorKind::AddrNotAvailable => {
                    "; the address is not one of this host's: rank 0 must run on MASTER_ADDR"
                }
                _ => "",
            };
            Error::runtime(format!("store: cannot listen on {address}: {e}{hint}"))
        };
        let listener = TcpListener::bind(address).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let bound = listener.local_addr().map_err(fail)?;
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let stop = Arc::new(eventfd(0, flags).map_err(|e| fail(e.into()))?);
        let inside = stop.clone();
        let refused = Refused::default();
        let mut all =
            Loop { listener, table: Table::default(), clients: Vec::new(), security, refused: refused.clone() };
        let thread =
            std::thread::Builder::new().name("comm store".into()).spawn(move || all.run(&inside)).map_err(fail)?;
        Ok(Server { address: bound, refused, stop, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whom it refused and why, for errors that say who is missing. Empty: nobody.
    pub fn refusals(&self) -> String {
        let refused = self.refused.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut said: Vec<String> = refused.iter().map(|((from, why), n)| format!("{n} from {from} {why}")).collect();
        said.sort();
        match said.is_empty() {
            true => String::new(),
            false => format!("; the store refused connections: {}; {HOW}", said.join(", ")),
        }
    }
}

/// Connections that were refused: from where, why, how many.
#[derive(Clone, Default)]
struct Refused(Arc<Mutex<HashMap<(IpAddr, Reason), usize>>>);

/// Why somebody was refused, as the end of a sentence.
type Reason = Cow<'static, str>;

impl Refused {
    fn add(&self, from: IpAddr, why: Reason) {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() < MAX_STRANGERS {
            *refused.entry((from, why)).or_default() += 1;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An eventfd takes a write unless its counter is full, which means that it is readable anyway.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Loop {
    listener: TcpListener,
    table: Table,
    clients: Vec<Client>,
    security: Security,
    refused: Refused,
}

struct Client {
    stream: Stream,
    from: IpAddr,
    /// When it last said something.
    heard: Instant,
    door: Door,
    input: Vec<u8>,
    output: Vec<u8>,
    validated: bool,
    waiting: Option<Waiting>,
    /// Of values of queues that it waited for and was told of; its next request takes them or gives them up.
    claim: Option<Claim>,
}

/// What a client waits for.
enum Waiting {
    Keys(Vec<Vec<u8>>),
    /// A number that others raise.
    Count(Vec<u8>, i64),
}

/// How far a client has come in.
enum Door {
    Open,
    /// It must prove that it knows the secret, and has not begun to.
    Locked(Key),
    /// It was given a number and shall answer: its own number, ours.
    Asked(Key, [u8; NONCE], [u8; NONCE]),
    /// It hears this and is sent away.
    Shut([u8; 4], Reason),
}

/// The connection cannot go on.
struct Close;

impl Loop {
    fn run(&mut self, stop: &OwnedFd) {
        // Set while descriptors have run out: who knocks then waits in the queue of the listener.
        let mut full_until: Option<Instant> = None;
        loop {
            let impatient = self.clients.iter().any(|client| client.patience().is_some()).then_some(LOOK);
            let pause = full_until.map(|until| until.saturating_duration_since(Instant::now())).or(impatient);
            let knocks = if full_until.is_none() { PollFlags::IN } else { PollFlags::empty() };
            let mut fds = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(&self.listener, knocks)];
            let unread = self.clients.iter().any(|client| client.stream.has_unread());
            let pause = if unread { Some(Duration::ZERO) } else { pause };
            for client in &self.clients {
                let full = !client.output.is_empty() || client.stream.wants_write();
                let write = if full { PollFlags::OUT } else { PollFlags::empty() };
                fds.push(PollFd::new(&client.stream, PollFlags::IN | write));
            }
            match poll(&mut fds, pause.map(timespec).as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            if ready[0] {
                return;
            }
            let (mut changed, n_clients) = (false, self.clients.len());
            let (table, refused) = (&mut self.table, &self.refused);
            let mut flags = ready[2..].iter();
            self.clients.retain_mut(|client| {
                let ready = flags.next().copied().unwrap_or(false);
                if !ready && !client.stream.has_unread() {
                    return true;
                }
                // A client may set a value and leave: what it sent is served before its connection is closed.
                let received = client.receive();
                let served = client.serve(table, &mut changed).and(received);
                if let Door::Shut(_, why) = &client.door {
                    refused.add(client.from, why.clone());
                }
                served.is_ok()
            });
            self.clients.retain(|client| client.patience().is_none_or(|limit| client.heard.elapsed() < limit));
            // Who leaves gives up values of queues that were meant for it.
            changed |= self.clients.len() < n_clients;
            // A value that one client sets may be what others wait for, and they may then set something in turn.
            while std::mem::take(&mut changed) {
                self.clients.retain_mut(|client| client.serve(table, &mut changed).is_ok());
            }
            self.hold_less();
            if full_until.is_some_and(|until| until <= Instant::now()) {
                full_until = None;
            }
            if ready[1] && !self.accept() {
                // Strangers are not to keep out those who know what to say.
                self.clients.retain(|client| client.validated || client.heard.elapsed() < LOOK);
                full_until = Some(Instant::now() + FULL_PAUSE);
            }
        }
    }

    /// Unfinished requests and unread answers of all clients together are bounded: who holds most leaves first.
    fn hold_less(&mut self) {
        let held = |client: &Client| {
            let keys = match &client.waiting {
                Some(Waiting::Keys(keys)) => keys.iter().map(|key| key.capacity() + size_of::<Vec<u8>>()).sum(),
                Some(Waiting::Count(key, _)) => key.capacity(),
                None => 0,
            };
            client.input.capacity() + client.output.capacity() + keys
        };
        while self.clients.iter().map(held).sum::<usize>() > MAX_HELD {
            let Some(most) = (0..self.clients.len()).max_by_key(|&i| held(&self.clients[i])) else { return };
            self.clients.swap_remove(most);
        }
    }

    /// Takes in who knocks; false where that was not possible now.
    fn accept(&mut self) -> bool {
        loop {
            let (stream, from) = match self.listener.accept() {
                Ok((stream, from)) => (stream, from.ip().to_canonical()),
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                Err(e) => return e.kind() == ErrorKind::WouldBlock,
            };
            let here = || stream.local_addr().is_ok_and(|to| to.ip().to_canonical() == from);
            let access = &self.security.access;
            let door = match access {
                // Who has a certificate says the same words, with the key of everybody.
                Access::Secret(_) | Access::Certificate => Door::Locked(access.key()),
                Access::OneHost if !from.is_loopback() && !here() => {
                    Door::Shut(code::NEEDS_ONE_HOST, "on another host without a job secret".into())
                }
                _ => Door::Open,
            };
            if self.clients.iter().filter(|client| !client.validated).count() >= MAX_STRANGERS {
                self.drop_a_stranger();
            }
            // Over the limit the connection is closed by being dropped.
            let full = self.clients.len() >= MAX_CONNECTIONS;
            if !full
                && stream.set_nonblocking(true).is_ok()
                && stream.set_nodelay(true).is_ok()
                && let Ok(stream) = Stream::accepted(stream, self.security.tls.as_ref(), Load::Words)
            {
                self.clients.push(Client {
                    stream,
                    from,
                    heard: Instant::now(),
                    door,
                    input: Vec::new(),
                    output: Vec::new(),
                    validated: false,
                    waiting: None,
                    claim: None,
                });
            }
        }
    }

    /// The one that has waited longest of the address that most are from.
    fn drop_a_stranger(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        let strangers = || self.clients.iter().enumerate().filter(|(_, client)| !client.validated);
        strangers().for_each(|(_, client)| *counts.entry(client.from).or_default() += 1);
        let most = counts.values().max().copied().unwrap_or(0);
        let longest = strangers().filter(|(_, client)| counts[&client.from] == most).min_by_key(|(_, c)| c.heard);
        if let Some(at) = longest.map(|(at, _)| at) {
            self.clients.swap_remove(at);
        }
    }
}

impl Client {
    /// How long it may be silent from now on. `None`: as long as it likes.
    fn patience(&self) -> Option<Duration> {
        match self.validated {
            false => Some(PATIENCE),
            true if self.waiting.is_none() && !self.input.is_empty() => Some(SLOW),
            true => None,
        }
    }

    fn receive(&mut self) -> Result<(), Close> {
        let mut buf = [0; 64 << 10];
        // One turn takes in a bounded part, so that the sum over all clients is looked at in between.
        for _ in 0..RECEIVE_TURNS {
            match self.stream.read(&mut buf) {
                Ok(0) => return Err(Close),
                Ok(n) => {
                    self.heard = Instant::now();
                    self.input.extend_from_slice(&buf[..n]);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    if let Some(fault) = Fault::of(&e)
                        && !self.validated
                    {
                        self.door = Door::Shut(code::NEEDS_SECRET, format!("that {}", fault.words).into());
                    }
                    return Err(Close);
                }
            }
            let most = if self.validated { MAX_REQUEST } else { MAX_OPENING };
            if self.input.len() > most {
                return Err(Close);
            }
        }
        Ok(())
    }

    /// Answers every complete request, unless it must wait.
    fn serve(&mut self, table: &mut Table, changed: &mut bool) -> Result<(), Close> {
        let input = std::mem::take(&mut self.input);
        let mut reader = Reader { data: &input };
        loop {
            if let Some(waiting) = &self.waiting {
                if waiting.is_over(table, &mut self.claim) {
                    self.waiting = None;
                    self.output.push(code::YES);
                } else if reader.data.first() != Some(&code::CANCEL_WAIT) {
                    break;
                }
            }
            let rest = reader.data;
            let claim = self.claim.take();
            let step = match self.door {
                Door::Open => self.answer(&mut reader, table, changed),
                _ => self.let_in(&mut reader),
            };
            match step {
                Ok(()) => {}
                Err(Stop::Incomplete) => {
                    reader.data = rest;
                    self.claim = claim;
                    break;
                }
                Err(Stop::Invalid) => {
                    // A refusal is heard if the socket takes it at once.
                    let _ = self.flush();
                    return Err(Close);
                }
            }
            if self.output.len() > MAX_UNREAD {
                return Err(Close);
            }
        }
        self.input = reader.data.to_vec();
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Close> {
        let mut sent = 0;
        while sent < self.output.len() {
            match self.stream.send(&self.output[sent..]) {
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Close),
            }
        }
        self.output.drain(..sent);
        Ok(())
    }

    /// One request. Nothing happens before all of it has been read.
    fn answer(&mut self, reader: &mut Reader<'_>, table: &mut Table, changed: &mut bool) -> Result<(), Stop> {
        let op = reader.u8()?;
        if !self.validated && is_hello(op) {
            return self.refuse_tls();
        }
        if self.validated == (op == code::VALIDATE) {
            return Err(Stop::Invalid);
        }
        match op {
            code::VALIDATE => {
                if reader.u32()? != code::MAGIC {
                    return Err(Stop::Invalid);
                }
                self.validated = true;
            }
            code::PING => {
                let nonce = reader.u32()?;
                self.output.extend_from_slice(&nonce.to_le_bytes());
            }
            code::SET => {
                let (key, value) = (reader.key()?, reader.value()?);
                table.set(key, value).map_err(invalid)?;
                *changed = true;
            }
            code::COMPARE_SET => {
                let (key, expected, desired) = (reader.key()?, reader.value()?, reader.value()?);
                let value = table.compare_set(key, expected, desired).map_err(invalid)?;
                self.put_bytes(&value);
                *changed = true;
            }
            code::GET => {
                let key = reader.key()?;
                let value = table.get(key).ok_or(Stop::Invalid)?;
                self.put_bytes(value);
            }
            code::ADD => {
                let (key, amount) = (reader.key()?, reader.u64()? as i64);
                let sum = table.add(key, amount).map_err(invalid)?;
                self.output.extend_from_slice(&sum.to_le_bytes());
                *changed = true;
            }
            code::CHECK => {
                let keys = reader.keys()?;
                self.output.push(if table.has_all(&keys) { code::YES } else { code::NO });
            }
            code::WAIT => {
                let keys = reader.keys()?.into_iter().map(<[u8]>::to_vec).collect();
                self.waiting = Some(Waiting::Keys(keys));
            }
            code::BARRIER => {
                let (key, n) = (reader.key()?, reader.u64()? as i64);
                table.add(key, 1).map_err(invalid)?;
                self.waiting = Some(Waiting::Count(key.to_vec(), n));
                *changed = true;
            }
            code::QUEUE_PUSH => {
                let (key, value) = (reader.key()?, reader.value()?);
                table.push(key, value).map_err(invalid)?;
                *changed = true;
            }
            code::QUEUE_POP => {
                let value = table.pop(reader.key()?);
                self.output.extend_from_slice(&i64::from(value.is_some()).to_le_bytes());
                if let Some(value) = value {
                    self.put_bytes(&value);
                }
            }
            code::QUEUE_LEN => {
                let n = table.queue_len(reader.key()?) as i64;
                self.output.extend_from_slice(&n.to_le_bytes());
            }
            code::LIST_KEYS => {
                self.output.extend_from_slice(&(table.len() as i64).to_le_bytes());
                for key in table.keys() {
                    self.put_bytes(key);
                    if self.output.len() > MAX_UNREAD {
                        return Err(Stop::Invalid);
                    }
                }
            }
            code::NUM_KEYS => self.output.extend_from_slice(&(table.len() as i64).to_le_bytes()),
            code::DELETE => {
                let key = reader.key()?;
                self.output.extend_from_slice(&i64::from(table.delete(key)).to_le_bytes());
            }
            code::APPEND => {
                let (key, value) = (reader.key()?, reader.value()?);
                table.append(key, value).map_err(invalid)?;
                *changed = true;
            }
            code::MULTI_GET => {
                for key in reader.keys()? {
                    let value = table.get(key).ok_or(Stop::Invalid)?;
                    self.put_bytes(value);
                    if self.output.len() > MAX_UNREAD {
                        return Err(Stop::Invalid);
                    }
                }
            }
            code::MULTI_SET => {
                let n = reader.count(MAX_KEYS)?;
                let mut pairs = Vec::new();
                for _ in 0..n {
                    pairs.push((reader.key()?, reader.value()?));
                }
                for (key, value) in pairs {
                    table.set(key, value).map_err(invalid)?;
                }
                *changed = true;
            }
            code::CANCEL_WAIT => {
                self.waiting = None;
                self.output.push(code::NO);
            }
            _ => return Err(Stop::Invalid),
        }
        Ok(())
    }

    /// One step of the proof that both ends know the secret.
    fn let_in(&mut self, reader: &mut Reader<'_>) -> Result<(), Stop> {
        match &self.door {
            Door::Open => {}
            Door::Shut(word, _) => {
                reader.u8()?;
                self.output.extend_from_slice(word);
                return Err(Stop::Invalid);
            }
            Door::Locked(key) => {
                let op = reader.u8()?;
                if is_hello(op) {
                    return self.refuse_tls();
                }
                if op != code::PROVE {
                    self.output.extend_from_slice(&code::NEEDS_SECRET);
                    self.door = Door::Shut(code::NEEDS_SECRET, "without a job secret".into());
                    return Err(Stop::Invalid);
                }
                let theirs = reader.take(NONCE)?.try_into().map_err(|_| Stop::Invalid)?;
                let mine = nonce().map_err(|_| Stop::Invalid)?;
                let key = self.stream.bound(key).map_err(|_| Stop::Invalid)?;
                self.output.extend_from_slice(&mine);
                self.door = Door::Asked(key, theirs, mine);
            }
            Door::Asked(key, theirs, mine) => {
                let tag = reader.take(TAG)?;
                if !key.proves(tag, CLIENT, &[theirs, mine]) {
                    self.output.push(code::NO);
                    self.output.extend_from_slice(&[0; TAG]);
                    self.door = Door::Shut(code::NEEDS_SECRET, "with another job secret".into());
                    return Err(Stop::Invalid);
                }
                self.output.push(code::YES);
                self.output.extend_from_slice(&key.tag(SERVER, &[theirs, mine]));
                self.door = Door::Open;
            }
        }
        Ok(())
    }

    fn refuse_tls(&mut self) -> Result<(), Stop> {
        self.output.extend_from_slice(&NEEDS_PLAIN);
        self.door = Door::Shut(code::NEEDS_SECRET, "with TLS, which this process does not use (ONEFLOW_TLS)".into());
        Err(Stop::Invalid)
    }

    fn put_bytes(&mut self, value: &[u8]) {
        self.output.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.output.extend_from_slice(value);
    }
}

impl Waiting {
    fn is_over(&self, table: &mut Table, claim: &mut Option<Claim>) -> bool {
        match self {
            Waiting::Keys(keys) => {
                *claim = table.claim(keys);
                claim.is_some()
            }
            Waiting::Count(key, n) => {
                let number = table.get(key).and_then(|text| std::str::from_utf8(text).ok()?.parse::<i64>().ok());
                number.is_some_and(|number| number >= *n)
            }
        }
    }
}

enum Stop {
    /// More bytes are needed.
    Incomplete,
    Invalid,
}

/// The protocol has no error answer: whatever cannot be done ends the connection.
fn invalid(_cause: &'static str) -> Stop {
    Stop::Invalid
}

struct Reader<'a> {
    data: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Stop> {
        let (head, tail) = self.data.split_at_checked(n).ok_or(Stop::Incomplete)?;
        self.data = tail;
        Ok(head)
    }

    fn u8(&mut self) -> Result<u8, Stop> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32, Stop> {
        Ok(self.take(4)?.iter().rev().fold(0, |v, &b| v << 8 | u32::from(b)))
    }

    fn u64(&mut self) -> Result<u64, Stop> {
        Ok(self.take(8)?.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b)))
    }

    /// A length or count, refused before anything of that size is waited for.
    fn count(&mut self, max: usize) -> Result<usize, Stop> {
        match usize::try_from(self.u64()?) {
            Ok(n) if n <= max => Ok(n),
            _ => Err(Stop::Invalid),
        }
    }

    fn key(&mut self) -> Result<&'a [u8], Stop> {
        let n = self.count(MAX_KEY)?;
        self.take(n)
    }

    fn value(&mut self) -> Result<&'a [u8], Stop> {
        let n = self.count(MAX_VALUE)?;
        self.take(n)
    }

    fn keys(&mut self) -> Result<Vec<&'a [u8]>, Stop> {
        let n = self.count(MAX_KEYS)?;
        let mut keys = Vec::new();
        for _ in 0..n {
            keys.push(self.key()?);
        }
        Ok(keys)
    }
}
