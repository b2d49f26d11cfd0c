//! The laws of the model through the C interface: a fabric whose calls are those of C.
//!
//! Left out: memory of the program, views and windows, which C programs have as addresses.
#![allow(unsafe_code, reason = "it calls the C interface")]
#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "all calls pass an open node, strings that end with a zero, places of the stack, and \
              bytes that live through the call"
)]

use std::ffi::{CStr, CString};
use std::net::UdpSocket;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fluxline_c::*;
use fluxline_conformance::Pair;
use fluxline_conformance::conformance;
use fluxline_core::fabric::{
    AccessError, Capabilities, Completion, ConnectError, EndpointId, ExportError, Fabric, Grant,
    ImportError, Key, Level, Local, Memory, Name, Operation, PostError, RegionId, RegisterError,
    Reliability, RemoteId, Slice, Status, Target, Work, WorkCounters,
};
use fluxline_core::{Moment, Span};

/// A node that is used through the C interface alone.
struct OverC {
    node: *mut FluxlineNode,
    capabilities: Capabilities,
    counters: WorkCounters,
}

// SAFETY: a handle may be used by one thread at a time, as a fabric is.
unsafe impl Send for OverC {}

impl OverC {
    fn open(url: &str) -> OverC {
        let (url, mut node) = (CString::new(url).expect("no zero"), null_mut());
        // SAFETY: a string that ends with a zero, and places on this stack.
        let capabilities = unsafe {
            assert_eq!(fluxline_open(url.as_ptr(), &raw mut node), FluxlineCode::Done);
            let mut of: FluxlineCapabilities = std::mem::zeroed();
            assert_eq!(fluxline_capabilities(node, &raw mut of), FluxlineCode::Done);
            of
        };
        let counters = WorkCounters::default();
        OverC { node, capabilities: capabilities_of(&capabilities), counters }
    }

    /// Reads all counters.
    fn count(&mut self) {
        let names: Vec<&str> = self.counters.rows().map(|(row, _)| row.name).collect();
        for name in names {
            let (text, mut value) = (CString::new(name).expect("no zero"), 0);
            // SAFETY: an open node, a string that ends with a zero, a place on this stack.
            let code = unsafe { fluxline_counter(self.node, text.as_ptr(), &raw mut value) };
            assert!(code == FluxlineCode::Done && self.counters.set(name, value), "{name}");
        }
    }

    /// Returns the address of an own region.
    fn address(&self, region: RegionId) -> Result<(NonNull<u8>, u64), AccessError> {
        let (mut address, mut size) = (null_mut(), 0);
        // SAFETY: an open node, and places on this stack.
        let code = unsafe { fluxline_memory(self.node, region.0, &raw mut address, &raw mut size) };
        let address = NonNull::new(address.cast()).filter(|_| code == FluxlineCode::Done);
        Ok((address.ok_or(AccessError::UnknownRegion)?, size))
    }
}

fn capabilities_of(of: &FluxlineCapabilities) -> Capabilities {
    let mut capabilities = Capabilities::new("over C");
    capabilities.operation_bytes_max = of.operation_bytes_max;
    capabilities.message_bytes_max = of.message_bytes_max;
    capabilities.pieces_max = of.pieces_max;
    capabilities.region_bytes_max = of.region_bytes_max;
    capabilities.regions_max = of.regions_max;
    capabilities.endpoints_max = of.endpoints_max;
    capabilities.queue_max = of.queue_max;
    capabilities.atomics = of.can & FLUXLINE_CAN_ATOMICS != 0;
    capabilities.ordered = of.can & FLUXLINE_CAN_ORDER != 0;
    capabilities.crossover_bytes = of.crossover_bytes;
    capabilities.death_noticed_within = Span::from_ns(of.death_noticed_within_ns);
    capabilities
}

/// Returns the sentence of the last failure.
fn sentence() -> String {
    // SAFETY: a string that lives until this thread's next call.
    unsafe { CStr::from_ptr(fluxline_error()) }.to_string_lossy().into_owned()
}

/// Returns the numbers of a sentence.
fn numbers(sentence: &str) -> Vec<u64> {
    sentence.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// Returns the error whose sentence this is.
fn access_error(sentence: &str) -> AccessError {
    let numbers = numbers(sentence);
    let mut candidates = vec![AccessError::UnknownRegion, AccessError::Rights];
    if let [bytes, offset, region_bytes] = numbers[..] {
        candidates.push(AccessError::OutOfRegion { offset, bytes, region_bytes });
    }
    if let [8, offset, 8] = numbers[..] {
        candidates.push(AccessError::Unaligned { offset });
    }
    let is_it = |error: &AccessError| sentence.ends_with(&error.to_string());
    candidates.into_iter().find(is_it).unwrap_or_else(|| panic!("unknown: {sentence}"))
}

fn post_error(code: FluxlineCode) -> PostError {
    let sentence = sentence();
    let mut candidates = vec![
        PostError::Full,
        PostError::NotConnected,
        PostError::NotImported,
        PostError::Unreliable,
    ];
    if let [bytes, max] = numbers(&sentence)[..] {
        candidates.push(PostError::TooLong { bytes, max });
    }
    if let [pieces, max] = numbers(&sentence)[..] {
        candidates.push(PostError::Pieces { pieces: pieces as usize, max: max as u32 });
    }
    if sentence.starts_with("own memory") {
        candidates.push(PostError::Local(access_error(&sentence)));
    }
    if sentence.starts_with("the peer's memory") {
        candidates.push(PostError::Remote(access_error(&sentence)));
    }
    let is_it = |error: &PostError| sentence == error.to_string();
    let error = candidates.into_iter().find(is_it).unwrap_or_else(|| panic!("{sentence}"));
    let expected = match error {
        PostError::Full => FluxlineCode::Full,
        PostError::NotConnected => FluxlineCode::Gone,
        _ => FluxlineCode::Argument,
    };
    assert_eq!(code, expected, "{sentence}");
    error
}

fn register_error(bytes: u64) -> RegisterError {
    let sentence = sentence();
    let max = numbers(&sentence).last().copied().unwrap_or_default();
    let many = RegisterError::TooMany { max: max as u32 };
    let size = RegisterError::Size { bytes, max };
    let mut candidates = [many, size].into_iter();
    let found = candidates.find(|error| error.to_string() == sentence);
    found.unwrap_or(RegisterError::Memory { bytes, reason: sentence })
}

/// An own region, by its address.
struct CMemory {
    first: NonNull<u8>,
    size: u64,
}

// SAFETY: these tests use it on one thread.
unsafe impl Send for CMemory {}
// SAFETY: as above.
unsafe impl Sync for CMemory {}

impl CMemory {
    fn place(&self, offset: u64, bytes: usize) -> Result<*mut u8, AccessError> {
        self.check(offset, bytes as u64)?;
        // SAFETY: inside (checked).
        Ok(unsafe { self.first.add(offset as usize) }.as_ptr())
    }

    fn word(&self, offset: u64) -> Result<&AtomicU64, AccessError> {
        if !offset.is_multiple_of(8) {
            return Err(AccessError::Unaligned { offset });
        }
        // SAFETY: inside and aligned; the region outlives this memory in these tests.
        Ok(unsafe { AtomicU64::from_ptr(self.place(offset, 8)?.cast()) })
    }
}

impl Memory for CMemory {
    fn bytes(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), AccessError> {
        let from = self.place(offset, into.len())?;
        // SAFETY: inside (checked); nobody writes meanwhile: both nodes are this thread's.
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), AccessError> {
        let to = self.place(offset, from.len())?;
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    fn load(&self, offset: u64) -> Result<u64, AccessError> {
        Ok(self.word(offset)?.load(Ordering::Acquire))
    }

    fn store(&self, offset: u64, value: u64) -> Result<(), AccessError> {
        self.word(offset)?.store(value, Ordering::Release);
        Ok(())
    }

    fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, AccessError> {
        Ok(self.word(offset)?.fetch_add(add, Ordering::AcqRel))
    }

    fn compare_swap(&self, offset: u64, expected: u64, desired: u64) -> Result<u64, AccessError> {
        let word = self.word(offset)?;
        match word.compare_exchange(expected, desired, Ordering::AcqRel, Ordering::Acquire) {
            Ok(before) | Err(before) => Ok(before),
        }
    }
}

const BLANK: FluxlineWork = FluxlineWork {
    operation: 0,
    complete_at: 0,
    tag: 0,
    remote: 0,
    notify: 0,
    value: 0,
    region: 0,
    offset: 0,
    region_offset: 0,
    from: null(),
    pieces: null(),
    piece_count: 0,
    count: 0,
    operand: 0,
    expected: 0,
};

fn at(operation: FluxlineOperation, at: Target) -> FluxlineWork {
    let operation = operation as u32;
    FluxlineWork { operation, remote: at.remote.0, offset: at.offset, ..BLANK }
}

fn into_own(work: FluxlineWork, slice: Slice) -> FluxlineWork {
    let Slice { region, offset, bytes } = slice;
    FluxlineWork { region: region.0, region_offset: offset, count: bytes, ..work }
}

fn from_local(work: FluxlineWork, from: Local<'_>) -> FluxlineWork {
    match from {
        Local::Bytes(bytes) => {
            // An empty slice has an address too, which is not null.
            let (from, count) = (bytes.as_ptr().cast(), bytes.len() as u64);
            FluxlineWork { from, count, ..work }
        }
        Local::Region(slice) => into_own(work, slice),
        Local::Gather(pieces) => {
            let of_c = |Slice { region, offset, bytes }: &Slice| FluxlineSlice {
                region: region.0,
                offset: *offset,
                bytes: *bytes,
            };
            let pieces: Vec<FluxlineSlice> = pieces.iter().map(of_c).collect();
            let piece_count = pieces.len() as u64;
            // Kept for the call; a test may leave it behind.
            FluxlineWork { pieces: pieces.leak().as_ptr(), piece_count, ..work }
        }
        other => panic!("{other:?} is not in the C interface"),
    }
}

fn level(complete_at: Option<Level>) -> u32 {
    (match complete_at {
        None => FluxlineLevel::Never,
        Some(Level::Copied) => FluxlineLevel::Copied,
        Some(Level::Placed) => FluxlineLevel::Placed,
    }) as u32
}

fn work_of(work: Work<'_>) -> FluxlineWork {
    use FluxlineOperation as Of;
    match work {
        Work::Put { from, to, notify, complete_at } => FluxlineWork {
            notify: notify.is_some().into(),
            value: notify.unwrap_or_default(),
            complete_at: level(complete_at),
            ..from_local(at(Of::Put, to), from)
        },
        Work::Get { from, into } => into_own(at(Of::Get, from), into),
        Work::FetchAdd { at: word, add } => FluxlineWork { operand: add, ..at(Of::FetchAdd, word) },
        Work::CompareSwap { at: word, expected, desired } => {
            FluxlineWork { expected, operand: desired, ..at(Of::CompareSwap, word) }
        }
        Work::Send { from, complete_at } => {
            let blank = FluxlineWork { operation: Of::Send as u32, ..BLANK };
            FluxlineWork { complete_at: level(complete_at), ..from_local(blank, from) }
        }
        Work::Fence => FluxlineWork { operation: Of::Fence as u32, ..BLANK },
        Work::Flush => FluxlineWork { operation: Of::Flush as u32, ..BLANK },
        other => panic!("{other:?} is not in the C interface"),
    }
}

fn operation_of(operation: FluxlineOperation) -> Operation {
    match operation {
        FluxlineOperation::Put => Operation::Put,
        FluxlineOperation::Get => Operation::Get,
        FluxlineOperation::FetchAdd => Operation::FetchAdd,
        FluxlineOperation::CompareSwap => Operation::CompareSwap,
        FluxlineOperation::Send => Operation::Send,
        FluxlineOperation::Receive => Operation::Receive,
        FluxlineOperation::Fence => Operation::Fence,
        FluxlineOperation::Flush => Operation::Flush,
        FluxlineOperation::None => panic!("a completion of no operation"),
    }
}

fn reliability_of(number: u64) -> Reliability {
    match u32::try_from(number) {
        Ok(FLUXLINE_RELIABLE) => Reliability::Reliable,
        Ok(FLUXLINE_UNRELIABLE) => Reliability::Unreliable,
        _ => panic!("reliability {number}"),
    }
}

impl OverC {
    fn completion(&self, of: &FluxlineCompletion) -> Completion {
        let endpoint = EndpointId(of.endpoint);
        let status = Status::ALL[of.status as usize];
        match of.kind {
            FluxlineKind::Completed => {
                let (operation, value) = (operation_of(of.operation), of.value);
                Completion::Done { endpoint, tag: of.tag, operation, status, value }
            }
            FluxlineKind::Received => {
                let (operation, value) = (operation_of(of.operation), of.bytes);
                Completion::Done { endpoint, tag: of.tag, operation, status, value }
            }
            FluxlineKind::Notified => {
                let (region, offset, bytes) = (RegionId(of.region), of.offset, of.bytes);
                let value = u32::try_from(of.value).expect("32 bits");
                Completion::Notified { endpoint, region, offset, bytes, value }
            }
            FluxlineKind::Connected => {
                // SAFETY: an open node; the string lives until the connection's end.
                let peer = unsafe { CStr::from_ptr(fluxline_peer(self.node, of.endpoint)) };
                let peer = peer.to_str().expect("UTF-8").to_owned();
                Completion::Connected { endpoint, peer, reliability: reliability_of(of.value) }
            }
            FluxlineKind::Broken => Completion::Broken { endpoint, status },
            FluxlineKind::Imported => {
                Completion::Imported { remote: RemoteId(of.remote), status, bytes: of.bytes }
            }
        }
    }
}

impl Fabric for OverC {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn register(&mut self, bytes: u64) -> Result<RegionId, RegisterError> {
        let mut region = 0;
        match unsafe { fluxline_register(self.node, bytes, &raw mut region) } {
            FluxlineCode::Done => Ok(RegionId(region)),
            _ => Err(register_error(bytes)),
        }
    }

    fn export(&mut self, region: RegionId, name: Name, grant: Grant) -> Result<(), ExportError> {
        let Grant { rights, key } = grant;
        let bit = |has: bool, bit| if has { bit } else { 0 };
        let rights = bit(rights.put, FLUXLINE_PUT)
            | bit(rights.get, FLUXLINE_GET)
            | bit(rights.atomic, FLUXLINE_ATOMIC);
        let text = CString::new(name.as_str()).expect("no zero");
        let code = unsafe { fluxline_export(self.node, region.0, text.as_ptr(), key.0, rights) };
        if code == FluxlineCode::Done {
            return Ok(());
        }
        let (sentence, unknown) = (sentence(), ExportError::UnknownRegion);
        let taken = ExportError::NameTaken { name: name.clone() };
        if sentence == taken.to_string() {
            return Err(taken);
        }
        if sentence == unknown.to_string() {
            return Err(unknown);
        }
        // The name in the sentence is the region's first name.
        let first = sentence.split_whitespace().find_map(|word| {
            let name = Name::parse(word).ok()?;
            let exported = ExportError::Exported { name };
            (exported.to_string() == sentence).then_some(exported)
        });
        Err(first.unwrap_or(ExportError::Host { name, reason: sentence }))
    }

    fn withdraw(&mut self, region: RegionId) -> Result<(), AccessError> {
        match unsafe { fluxline_withdraw(self.node, region.0) } {
            FluxlineCode::Done => Ok(()),
            _ => Err(access_error(&sentence())),
        }
    }

    fn memory(&self, region: RegionId) -> Result<Arc<dyn Memory>, AccessError> {
        let (first, size) = self.address(region)?;
        Ok(Arc::new(CMemory { first, size }))
    }

    fn view(&mut self, _: RegionId, _: &mut dyn FnMut(&mut [u8])) -> Result<(), AccessError> {
        Err(AccessError::InUse)
    }

    fn connect(
        &mut self,
        peer: &str,
        reliability: Reliability,
    ) -> Result<EndpointId, ConnectError> {
        let text = CString::new(peer).expect("no zero");
        let reliability = match reliability {
            Reliability::Reliable => FLUXLINE_RELIABLE,
            Reliability::Unreliable => FLUXLINE_UNRELIABLE,
        };
        let mut endpoint = 0;
        let code = unsafe {
            fluxline_begin_connect(self.node, text.as_ptr(), reliability, &raw mut endpoint)
        };
        if code == FluxlineCode::Done {
            return Ok(EndpointId(endpoint));
        }
        let (sentence, peer) = (sentence(), peer.to_owned());
        if sentence.contains("is not a node that this link can reach") {
            return Err(ConnectError::Name { peer, expected: "see the sentence" });
        }
        Err(ConnectError::Host { peer, reason: sentence })
    }

    fn disconnect(&mut self, endpoint: EndpointId) -> Result<(), PostError> {
        match unsafe { fluxline_disconnect(self.node, endpoint.0) } {
            FluxlineCode::Done => Ok(()),
            code => Err(post_error(code)),
        }
    }

    fn import(
        &mut self,
        endpoint: EndpointId,
        name: Name,
        key: Key,
    ) -> Result<RemoteId, ImportError> {
        let text = CString::new(name.as_str()).expect("no zero");
        let mut remote = 0;
        let code = unsafe {
            let remote = &raw mut remote;
            fluxline_begin_import(self.node, endpoint.0, text.as_ptr(), key.0, remote)
        };
        match (code, numbers(&sentence()).first()) {
            (FluxlineCode::Done, _) => Ok(RemoteId(remote)),
            (FluxlineCode::Gone, _) => Err(ImportError::NotConnected),
            (_, Some(max)) => Err(ImportError::TooMany { max: *max as u32 }),
            _ => panic!("{}", sentence()),
        }
    }

    fn window(&self, _: RemoteId) -> Result<Option<Arc<dyn Memory>>, AccessError> {
        Ok(None)
    }

    fn post(&mut self, endpoint: EndpointId, tag: u64, work: Work<'_>) -> Result<(), PostError> {
        let work = FluxlineWork { tag, ..work_of(work) };
        let mut posted = usize::MAX;
        let code =
            unsafe { fluxline_post(self.node, endpoint.0, &raw const work, 1, &raw mut posted) };
        assert_eq!(posted == 1, code == FluxlineCode::Done);
        self.count();
        if code == FluxlineCode::Done { Ok(()) } else { Err(post_error(code)) }
    }

    fn post_receive(
        &mut self,
        endpoint: EndpointId,
        tag: u64,
        into: Slice,
    ) -> Result<(), PostError> {
        let Slice { region, offset, bytes } = into;
        let code = unsafe { fluxline_receive(self.node, endpoint.0, region.0, offset, bytes, tag) };
        if code == FluxlineCode::Done { Ok(()) } else { Err(post_error(code)) }
    }

    fn counters(&self) -> &WorkCounters {
        &self.counters
    }

    fn now(&self) -> Moment {
        let mut now = 0;
        assert_eq!(unsafe { fluxline_now_ns(self.node, &raw mut now) }, FluxlineCode::Done);
        Moment::from_ns(now)
    }

    fn poll(&mut self, _: Moment) -> Option<Completion> {
        self.count();
        let mut completion: FluxlineCompletion = unsafe { std::mem::zeroed() };
        match unsafe { fluxline_poll(self.node, &raw mut completion) } {
            FluxlineCode::Done => Some(self.completion(&completion)),
            FluxlineCode::Nothing => None,
            _ => panic!("{}", sentence()),
        }
    }

    fn deadline(&self) -> Option<Moment> {
        let mut left = 0;
        assert_eq!(unsafe { fluxline_deadline_ms(self.node, &raw mut left) }, FluxlineCode::Done);
        u64::try_from(left).ok().map(|left| self.now() + Span::from_ms(left))
    }

    fn wait(&mut self, until: Moment) {
        let code = unsafe { fluxline_wait_until_ns(self.node, until.as_ns()) };
        assert_eq!(code, FluxlineCode::Done);
    }
}

impl Drop for OverC {
    fn drop(&mut self) {
        // SAFETY: ended once.
        unsafe { fluxline_close(self.node) };
    }
}

fn pair(left: &str, right: &str, right_name: String) -> Pair {
    Pair {
        left: Box::new(OverC::open(left)),
        right: Box::new(OverC::open(right)),
        right_name,
        right_again: None,
        now: Box::new(fluxline::clock::monotonic),
    }
}

fn shm_pair() -> Pair {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let group = format!("shm://test-c-laws-{}-{number}", std::process::id());
    pair(&format!("{group}/left"), &format!("{group}/right"), "right".into())
}

fn udp_pair() -> Pair {
    // Ports that are free now: the sockets are dropped at once.
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let [left, right] = sockets.each_ref().map(|of| of.local_addr().expect("an address"));
    drop(sockets);
    pair(&format!("udp://{left}"), &format!("udp://{right}"), right.to_string())
}

mod shm {
    use super::*;
    conformance!(@without_views shm_pair());
}

mod udp {
    use super::*;
    conformance!(@without_views udp_pair());
}
