// Fluxline: remote writes into named regions of other processes, and push rings.
//
// Made by cbindgen from crates/fluxline-c/src/lib.rs; do not edit.
// Every call that can fail returns FLUXLINE_CODE_DONE or another code; fluxline_error() has the sentence.
// A handle may be used by one thread at a time.

#ifndef FLUXLINE_H
#define FLUXLINE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Rights of a region: peers may write it.
#define FLUXLINE_PUT 1

// Rights of a region: peers may read it.
#define FLUXLINE_GET 2

// Rights of a region: peers may add to its words and swap them.
#define FLUXLINE_ATOMIC 4

// Capability: fluxline_window maps peers' regions.
#define FLUXLINE_CAN_MAP 1

// Capability: atomics of peers are atomic with respect to the owner's own atomics.
#define FLUXLINE_CAN_ATOMICS 2

// Capability: work of one connection is placed in the order in which it was posted.
#define FLUXLINE_CAN_ORDER 4

// Connections: work is done once and in order, or the connection breaks.
#define FLUXLINE_RELIABLE 0

// Connections: loss is counted, and nothing is repeated.
#define FLUXLINE_UNRELIABLE 1

// The result of a call.
typedef enum FluxlineCode {
  // As asked.
  FLUXLINE_CODE_DONE = 0,
  // Nothing there yet; try again.
  FLUXLINE_CODE_NOTHING = 1,
  // The queue or ring is full; poll or wait, then try again.
  FLUXLINE_CODE_FULL = 2,
  // An argument is wrong; fluxline_error() says which.
  FLUXLINE_CODE_ARGUMENT = 3,
  // The link, the host or the peer refused; fluxline_error() says why.
  FLUXLINE_CODE_REFUSED = 4,
  // Nothing came in time.
  FLUXLINE_CODE_TIMEOUT = 5,
  // The other side has gone: it has closed, or its process has died.
  FLUXLINE_CODE_GONE = 6,
  // A defect of the library; please report it.
  FLUXLINE_CODE_DEFECT = 7,
} FluxlineCode;

// The kind of a completion.
typedef enum FluxlineKind {
  // Posted work is done; see operation and status.
  FLUXLINE_KIND_COMPLETED = 0,
  // A peer's put with a notification is in place.
  FLUXLINE_KIND_NOTIFIED = 1,
  // A peer has connected, or has accepted; fluxline_peer has its name.
  FLUXLINE_KIND_CONNECTED = 2,
  // A connection is over; see status.
  FLUXLINE_KIND_BROKEN = 3,
  // A message is in a buffer of fluxline_receive; see status.
  FLUXLINE_KIND_RECEIVED = 4,
  // The import of fluxline_begin_import has ended; see status.
  FLUXLINE_KIND_IMPORTED = 5,
} FluxlineKind;

// The kind of work: what FluxlineWork asks for, and what a completion reports.
typedef enum FluxlineOperation {
  // No operation.
  FLUXLINE_OPERATION_NONE = 0,
  // Writes into a peer's region.
  FLUXLINE_OPERATION_PUT = 1,
  // Reads from a peer's region into an own one.
  FLUXLINE_OPERATION_GET = 2,
  // Adds to a word of a peer's region.
  FLUXLINE_OPERATION_FETCH_ADD = 3,
  // Replaces a word of a peer's region if it has the expected value.
  FLUXLINE_OPERATION_COMPARE_SWAP = 4,
  // Sends a message into a buffer of the peer.
  FLUXLINE_OPERATION_SEND = 5,
  // Receives a message; posted by fluxline_receive.
  FLUXLINE_OPERATION_RECEIVE = 6,
  // Holds back later work until all earlier work is placed.
  FLUXLINE_OPERATION_FENCE = 7,
  // Completes when all earlier work is placed.
  FLUXLINE_OPERATION_FLUSH = 8,
} FluxlineOperation;

// A node on a link.
typedef struct FluxlineNode FluxlineNode;

// A run: an acquisition that goes on, or its report.
typedef struct FluxlineRun FluxlineRun;

// A completion, from fluxline_poll.
typedef struct FluxlineCompletion {
  // The kind of completion.
  enum FluxlineKind kind;
  // Completed, Received: the kind of work.
  enum FluxlineOperation operation;
  // The connection; not for Imported.
  uint32_t endpoint;
  // Completed, Received, Broken, Imported: 0 is well; fluxline_status_name has the others.
  uint32_t status;
  // Completed, Received: the caller's tag.
  uint64_t tag;
  // Notified: which own region.
  uint32_t region;
  // Imported: the peer's region.
  uint32_t remote;
  // Notified: where the bytes begin.
  uint64_t offset;
  // Notified, Received: the number of bytes. Imported: the region's size.
  uint64_t bytes;
  // Notified: the peer's value. Completed: the word before the operation, for atomics.
  // Connected: FLUXLINE_RELIABLE or FLUXLINE_UNRELIABLE.
  uint64_t value;
} FluxlineCompletion;

// The capabilities of a link, so that programs adapt instead of guessing.
typedef struct FluxlineCapabilities {
  // The link's name, up to a zero byte.
  char link[32];
  // The longest operation, in bytes.
  uint64_t operation_bytes_max;
  // The longest message, in bytes.
  uint64_t message_bytes_max;
  // The largest region, in bytes.
  uint64_t region_bytes_max;
  // The most regions, and the most imports.
  uint32_t regions_max;
  // The most connections.
  uint32_t endpoints_max;
  // Operations that one connection takes before some complete.
  uint32_t queue_max;
  // The most pieces of one FluxlineWork.
  uint32_t pieces_max;
  // Bits: FLUXLINE_CAN_MAP and so on.
  uint32_t can;
  // Length from which a put is at least as fast as stores through a window, in bytes.
  uint64_t crossover_bytes;
  // The longest time from a peer's death to the report of its broken connections, in ns.
  uint64_t death_noticed_within_ns;
} FluxlineCapabilities;

// A part of an own region.
typedef struct FluxlineSlice {
  // The region.
  uint32_t region;
  // The place of the first byte.
  uint64_t offset;
  // The number of bytes.
  uint64_t bytes;
} FluxlineSlice;

// Work for fluxline_post. Zeros are the defaults; fields of other operations are ignored.
typedef struct FluxlineWork {
  // The operation: FLUXLINE_OPERATION_PUT and so on.
  uint32_t operation;
  // Put, Send: when it completes: FLUXLINE_LEVEL_NEVER, _COPIED or _PLACED.
  uint32_t complete_at;
  // Comes back in the completion.
  uint64_t tag;
  // Put, Get, FetchAdd, CompareSwap: the peer's region.
  uint32_t remote;
  // Put: 1 to notify the owner.
  uint32_t notify;
  // Put: the value of the notification.
  uint32_t value;
  // Put and Send without from and pieces: the own region that has the bytes. Get: the own region
  // for them.
  uint32_t region;
  // Put, Get, FetchAdd, CompareSwap: the place in the peer's region.
  uint64_t offset;
  // The place in the own region.
  uint64_t region_offset;
  // Put, Send: the bytes, which may be changed at once; NULL: those of the own region, which
  // must not change until the work is copied.
  const void *from;
  // Put, Send without from: parts of own regions whose bytes follow one another; at most
  // pieces_max of fluxline_capabilities. NULL: one part.
  const struct FluxlineSlice *pieces;
  // Put, Send: the number of pieces.
  uint64_t piece_count;
  // Put, Get, Send: the number of bytes; not for pieces.
  uint64_t count;
  // FetchAdd: the addend. CompareSwap: the new value.
  uint64_t operand;
  // CompareSwap: the value that the word must have.
  uint64_t expected;
} FluxlineWork;

// Counters of one end of a push ring. When all is read, both ends have the same records and bytes.
typedef struct FluxlineRingCounters {
  // Records pushed or read.
  uint64_t records;
  // Their bytes, time stamps included.
  uint64_t bytes;
  // Times that records were published.
  uint64_t batches;
  // Times that a record found no room.
  uint64_t full;
  // Time without room, in nanoseconds.
  uint64_t stalled_ns;
  // Senders that died before they closed the ring.
  uint64_t died;
  // 1: the sender wrote an invalid record.
  uint64_t broken;
} FluxlineRingCounters;

// An event, as a filter reads it. Numbers that it does not have are UINT64_MAX or UINT32_MAX.
typedef struct FluxlineEvent {
  // The key that joined its packets.
  uint64_t key;
  // Time of arrival of its first packet, in ns since 1970.
  uint64_t first_ns;
  // Time of arrival of its last packet, in ns since 1970.
  uint64_t last_ns;
  // Time at which it was closed, in ns since 1970.
  uint64_t built_ns;
  // Length of the bytes of all its packets together.
  uint64_t bytes;
  // Number of its packets.
  uint32_t packets;
  // The generation of its key.
  uint32_t generation;
  // The only source that it may hold, where sources do not share its key.
  uint32_t source;
  // 0: complete, 1: incomplete, 2: stopped.
  uint32_t status;
} FluxlineEvent;

// A packet of an event, as a filter reads it. Numbers that it does not have are UINT64_MAX.
typedef struct FluxlinePacket {
  // Start of its bytes in the bytes of the event.
  uint64_t start;
  // The packet counter, unwrapped.
  uint64_t sequence;
  // Time of arrival, in ns since 1970.
  uint64_t time_ns;
  // The sensor's time, in ns since its epoch.
  uint64_t sensor_time_ns;
  // Packet index or byte offset within its source's fragment.
  uint64_t part;
  // Number of its bytes.
  uint32_t bytes;
  // Start of the payload in the packet.
  uint32_t payload_start;
  // Length of the payload, in bytes.
  uint32_t payload_bytes;
  // The number of the source.
  uint32_t source;
  // The number of the source's input: its place in the experiment, from 0.
  uint32_t input;
  // The number of the packet type in the source's description, from 0.
  uint32_t packet_type;
} FluxlinePacket;

// Decides on one event: above 0 keeps it, 0 rejects it, below 0 says that the filter failed; such
// an event is kept and marked. The arrays have the lengths that the event names.
typedef int32_t (*FluxlineFilter)(const struct FluxlineEvent *event,
                                  const struct FluxlinePacket *packets,
                                  const uint8_t *bytes,
                                  void *context);

// Counters of a run. All but ring_percent and sources grow until the run ends.
typedef struct FluxlineRunStats {
  // Packets received.
  uint64_t packets;
  // Their payload, in bytes.
  uint64_t bytes;
  // Packets that no description accepts.
  uint64_t rejected;
  // Packets that the counters of their sources miss.
  uint64_t lost;
  // Events built.
  uint64_t events;
  // Events of which a required source is missing.
  uint64_t incomplete;
  // Filled part of the fullest ring, in percent.
  uint64_t ring_percent;
  // Sources that have sent something.
  uint64_t sources;
  // Bytes in files.
  uint64_t recorded_bytes;
} FluxlineRunStats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The sentence of this thread's last failure; valid until its next call.
const char *fluxline_error(void);

// Opens a node and writes it to *node. The URL names the link: `shm://GROUP/NODE` for processes of
// this host, `udp://ADDRESS[:PORT][/NAME]` with an own address for Ethernet, or
// `xdp://INTERFACE[:PORT][/NAME]` for the same past the kernel's network stack, or
// `sim:sci/WORLD/NODE?nodes=N` for a simulated network in virtual time, each node on a thread.
enum FluxlineCode fluxline_open(const char *url, struct FluxlineNode **node);

// Opens `count` nodes (1 to 64) at the one address of a `udp://` or `xdp://` URL, each for a thread
// of its own, and writes them to the array `nodes`. Each connection belongs to one of
// them. Each is closed by itself; the others go on.
enum FluxlineCode fluxline_open_threads(const char *url,
                                        uint32_t count,
                                        struct FluxlineNode **nodes);

// Ends a node, its regions, rings and connections. Finish its senders first.
void fluxline_close(struct FluxlineNode *node);

// Makes a region of zero bytes; its number is written to *region.
enum FluxlineCode fluxline_register(struct FluxlineNode *node, uint64_t bytes, uint32_t *region);

// Ends a region: peers' later work on it fails, and its name and memory are given back. Push
// rings are ended by fluxline_receiver_close.
enum FluxlineCode fluxline_withdraw(struct FluxlineNode *node, uint32_t region);

// Lets peers that show the key import the region under that name; rights: FLUXLINE_PUT and so on.
enum FluxlineCode fluxline_export(struct FluxlineNode *node,
                                  uint32_t region,
                                  const char *region_name,
                                  uint64_t key,
                                  uint32_t rights);

// Copies from an own region into memory.
enum FluxlineCode fluxline_read(struct FluxlineNode *node,
                                uint32_t region,
                                uint64_t offset,
                                void *into,
                                size_t count);

// Returns the address and the size of an own region. The memory is the region's own: peers write
// it at any time. It is valid until the region is withdrawn or the node is closed.
enum FluxlineCode fluxline_memory(struct FluxlineNode *node,
                                  uint32_t region,
                                  void **address,
                                  uint64_t *size);

// Copies into an own region.
enum FluxlineCode fluxline_write(struct FluxlineNode *node,
                                 uint32_t region,
                                 uint64_t offset,
                                 const void *from,
                                 size_t count);

// Returns the sentence of a completion's status; never NULL, valid for ever.
const char *fluxline_status_name(uint32_t status);

// Writes a file descriptor to *descriptor that is readable when something arrived, for epoll and
// its kin; do not read or close it. Sleep no longer than fluxline_deadline_ms, then call
// fluxline_poll until it has nothing. FLUXLINE_CODE_REFUSED: this link has none; use
// fluxline_wait.
enum FluxlineCode fluxline_descriptor(struct FluxlineNode *node, int32_t *descriptor);

// Writes the time until fluxline_poll has work although nothing arrives [ms, rounded up] to
// *deadline_ms; -1: never.
enum FluxlineCode fluxline_deadline_ms(struct FluxlineNode *node, int64_t *deadline_ms);

// The next thing that happened, written to *completion; FLUXLINE_CODE_NOTHING: nothing new. Call
// it regularly: connections of peers are taken up in here.
enum FluxlineCode fluxline_poll(struct FluxlineNode *node, struct FluxlineCompletion *completion);

// Sleeps until fluxline_poll has something, at most timeout_ms of the link's time.
enum FluxlineCode fluxline_wait(struct FluxlineNode *node, uint32_t timeout_ms);

// Writes the capabilities of the node's link to *capabilities.
enum FluxlineCode fluxline_capabilities(struct FluxlineNode *node,
                                        struct FluxlineCapabilities *capabilities);

// Writes the time of the node's link to *now_ns, in ns: that of the host, or virtual time. It
// never goes back.
enum FluxlineCode fluxline_now_ns(struct FluxlineNode *node, uint64_t *now_ns);

// Sleeps until fluxline_poll has something, or until this moment of fluxline_now_ns.
enum FluxlineCode fluxline_wait_until_ns(struct FluxlineNode *node, uint64_t until_ns);

// Writes a counter of the node's work to *value, by its name in docs/counters.md: `puts`, `done`
// and so on. FLUXLINE_CODE_ARGUMENT: there is none of this name.
enum FluxlineCode fluxline_counter(struct FluxlineNode *node,
                                   const char *counter_name,
                                   uint64_t *value);

// Connects to a node and waits until it has accepted; the connection is written to *endpoint. A
// peer that is not there yet is tried again until timeout_ms have passed. The peer is a node's name on shm:// and sim:, and `ADDRESS[:PORT]` on udp:// and xdp://.
// reliability: FLUXLINE_RELIABLE or FLUXLINE_UNRELIABLE.
enum FluxlineCode fluxline_connect(struct FluxlineNode *node,
                                   const char *peer,
                                   uint32_t reliability,
                                   uint32_t timeout_ms,
                                   uint32_t *endpoint);

// Ends a connection, or one that fluxline_connect has not waited for; its imported regions end
// with it.
enum FluxlineCode fluxline_disconnect(struct FluxlineNode *node, uint32_t endpoint);

// Imports a peer's region by name and key; its number is written to *remote, its size to *size.
enum FluxlineCode fluxline_import(struct FluxlineNode *node,
                                  uint32_t endpoint,
                                  const char *region_name,
                                  uint64_t key,
                                  uint32_t timeout_ms,
                                  uint32_t *remote,
                                  uint64_t *size);

// Begins a connection; its number is written to *endpoint. fluxline_poll returns
// FLUXLINE_KIND_CONNECTED or FLUXLINE_KIND_BROKEN with it. Arguments as in fluxline_connect.
enum FluxlineCode fluxline_begin_connect(struct FluxlineNode *node,
                                         const char *peer,
                                         uint32_t reliability,
                                         uint32_t *endpoint);

// Begins an import; its number is written to *remote. fluxline_poll returns
// FLUXLINE_KIND_IMPORTED with it, a status and the region's size.
enum FluxlineCode fluxline_begin_import(struct FluxlineNode *node,
                                        uint32_t endpoint,
                                        const char *region_name,
                                        uint64_t key,
                                        uint32_t *remote);

// Returns the name or address of a connection's peer. It is valid until fluxline_poll returns
// FLUXLINE_KIND_BROKEN with the connection. NULL: the connection is not known.
const char *fluxline_peer(struct FluxlineNode *node, uint32_t endpoint);

// Maps a peer's region into this process, where the link can (shm://): stores through *address
// change the peer's memory. The rights must be FLUXLINE_PUT and FLUXLINE_GET. It is valid until
// the connection ends. FLUXLINE_CODE_REFUSED: use fluxline_put and fluxline_get.
enum FluxlineCode fluxline_window(struct FluxlineNode *node,
                                  uint32_t remote,
                                  void **address,
                                  uint64_t *size);

// Posts works on a connection, in order; the peer is woken once for all of them. The number of
// those that were taken is written to *posted; the code and fluxline_error() are those of the
// first that was not.
enum FluxlineCode fluxline_post(struct FluxlineNode *node,
                                uint32_t endpoint,
                                const struct FluxlineWork *works,
                                size_t count,
                                size_t *posted);

// Opens the sending end of a peer's push ring and waits until the peer has let it in; its number
// is written to *sender. The peer is named as in fluxline_connect. A peer or a ring that is not
// there yet is waited for, and so is the end of another sender: a ring has one at a time.
enum FluxlineCode fluxline_sender(struct FluxlineNode *node,
                                  const char *peer,
                                  const char *ring_name,
                                  uint64_t key,
                                  uint32_t timeout_ms,
                                  uint32_t *sender);

// Copies a record into the ring; the receiver sees it after fluxline_publish, or when a batch is
// full. FLUXLINE_CODE_FULL: try again after a while. FLUXLINE_CODE_GONE, for good: the receiver
// has closed or died.
enum FluxlineCode fluxline_push(struct FluxlineNode *node,
                                uint32_t sender,
                                const void *from,
                                size_t count);

// The same with a time stamp, for fluxline_next_stamped: all records of a ring have one, or none
// has.
enum FluxlineCode fluxline_push_stamped(struct FluxlineNode *node,
                                        uint32_t sender,
                                        uint64_t at_ns,
                                        const void *from,
                                        size_t count);

// Copies a record into the ring and shows it to the receiver at once; waits while the ring has no
// room. FLUXLINE_CODE_TIMEOUT: it had none for timeout_ms. FLUXLINE_CODE_GONE, for good: the
// receiver has closed or died.
enum FluxlineCode fluxline_push_wait(struct FluxlineNode *node,
                                     uint32_t sender,
                                     const void *from,
                                     size_t count,
                                     uint32_t timeout_ms);

// Shows all records to the receiver; call once per batch. FLUXLINE_CODE_GONE: nobody reads them.
enum FluxlineCode fluxline_publish(struct FluxlineNode *node, uint32_t sender);

// Publishes what is left, waits until it is in the receiver's memory, and ends the sender.
// FLUXLINE_CODE_TIMEOUT, FLUXLINE_CODE_GONE: the last records may be lost; the sender has ended
// all the same.
enum FluxlineCode fluxline_finish(struct FluxlineNode *node, uint32_t sender, uint32_t timeout_ms);

// Writes the time for which the ring has had no room to *stalled_ns; 0: there was room.
enum FluxlineCode fluxline_stalled_ns(struct FluxlineNode *node,
                                      uint32_t sender,
                                      uint64_t *stalled_ns);

// Writes to *number as many records as earlier senders have published into the ring: a program
// that counts its records from 0 pushes from there on, and loses and doubles none.
// FLUXLINE_CODE_REFUSED: the receiver does not count.
enum FluxlineCode fluxline_resumes_from(struct FluxlineNode *node,
                                        uint32_t sender,
                                        uint64_t *number);

// Writes the number of records of a ring that its receiver's program has taken to *records: for a
// sender those of its own, as it learns once per quarter of the ring.
enum FluxlineCode fluxline_delivered(struct FluxlineNode *node, uint32_t ring, uint64_t *records);

// Makes a push ring for at least `slots` records of slot_bytes, under a name and a key that its
// sender must show; its number is written to *receiver. Processes of one host share its memory,
// on other links records come by puts: the calls are the same.
enum FluxlineCode fluxline_receiver(struct FluxlineNode *node,
                                    const char *ring_name,
                                    uint64_t key,
                                    uint32_t slots,
                                    uint32_t slot_bytes,
                                    uint32_t *receiver);

// The oldest record, valid until the next call with this receiver: its address to *record, its
// size to *count. On shm:// the sender's process can change these bytes at any time: copy what you
// check before you use it. FLUXLINE_CODE_NOTHING: there is none now. FLUXLINE_CODE_GONE: none, and
// the sender has finished or died; another may come. FLUXLINE_CODE_REFUSED, for good: the sender
// broke the ring.
enum FluxlineCode fluxline_next(struct FluxlineNode *node,
                                uint32_t receiver,
                                const void **record,
                                size_t *count);

// Waits for the oldest record, and returns it as fluxline_next does. FLUXLINE_CODE_TIMEOUT: none
// came within timeout_ms.
enum FluxlineCode fluxline_next_wait(struct FluxlineNode *node,
                                     uint32_t receiver,
                                     uint32_t timeout_ms,
                                     const void **record,
                                     size_t *count);

// The same as fluxline_next, with the sender's time stamp, which is written to *at_ns.
enum FluxlineCode fluxline_next_stamped(struct FluxlineNode *node,
                                        uint32_t receiver,
                                        uint64_t *at_ns,
                                        const void **record,
                                        size_t *count);

// Sleeps until there may be a record, at most timeout_ms.
enum FluxlineCode fluxline_receiver_wait(struct FluxlineNode *node,
                                         uint32_t receiver,
                                         uint32_t timeout_ms);

// Ends the receiver and its ring; its sender finds it gone.
enum FluxlineCode fluxline_receiver_close(struct FluxlineNode *node, uint32_t receiver);

// Writes the counters of a sender or receiver to *counters.
enum FluxlineCode fluxline_ring_counters(struct FluxlineNode *node,
                                         uint32_t ring,
                                         struct FluxlineRingCounters *counters);

// Starts the run of an experiment file and writes it to *run. FLUXLINE_CODE_ARGUMENT: the file is
// wrong; fluxline_error() has the line.
enum FluxlineCode fluxline_run_start(const char *experiment_path, struct FluxlineRun **run);

// Starts the run of an experiment file as fluxline_run_start does, with a filter beside the
// experiment's. The filter is called by a thread of the run, one call at a time, until
// fluxline_run_wait or fluxline_run_close returns; context is passed to it.
enum FluxlineCode fluxline_run_start_filtered(const char *experiment_path,
                                              FluxlineFilter filter,
                                              void *context,
                                              struct FluxlineRun **run);

// Starts the run of an experiment that is given as TOML text. Paths in it are relative to the
// working directory.
enum FluxlineCode fluxline_run_start_text(const char *name,
                                          const char *experiment,
                                          struct FluxlineRun **run);

// Writes the counters of a run that fluxline_run_wait has not ended to *stats.
enum FluxlineCode fluxline_run_stats(struct FluxlineRun *run, struct FluxlineRunStats *stats);

// Asks a run to end: what has been received is still built and recorded. fluxline_run_wait waits
// for it.
enum FluxlineCode fluxline_run_stop(struct FluxlineRun *run);

// Returns at once: FLUXLINE_CODE_DONE if the run has ended by itself or after a stop,
// FLUXLINE_CODE_NOTHING while it goes on.
enum FluxlineCode fluxline_run_finished(struct FluxlineRun *run);

// Waits until the run ends, and closes its ledger. The exit status that `fluxline run` would have
// is written to *status: 0 only if everything received is in the files.
enum FluxlineCode fluxline_run_wait(struct FluxlineRun *run, uint32_t *status);

// Returns the first sentence of the summary of a run that fluxline_run_wait has ended; NULL: it
// has not. Valid until fluxline_run_close.
const char *fluxline_run_headline(struct FluxlineRun *run);

// Returns the run folder of a run that fluxline_run_wait has ended; NULL: nothing was recorded, or
// it has not ended. Valid until fluxline_run_close.
const char *fluxline_run_folder(struct FluxlineRun *run);

// Ends a run and its handle: one that goes on is stopped, drained and recorded first.
void fluxline_run_close(struct FluxlineRun *run);

// Writes into a peer's region; the bytes may be changed at once. notify: -1 for none, else a value
// of 32 bits that the owner gets after the bytes are in place. tag: comes back from
// fluxline_poll when the put is placed; -1: nothing comes back unless it fails.
enum FluxlineCode fluxline_put(struct FluxlineNode *node,
                               uint32_t endpoint,
                               uint32_t remote,
                               uint64_t offset,
                               const void *from,
                               size_t count,
                               int64_t notify,
                               int64_t tag);

// Reads from a peer's region into an own one; the tag comes back from fluxline_poll.
enum FluxlineCode fluxline_get(struct FluxlineNode *node,
                               uint32_t endpoint,
                               uint32_t remote,
                               uint64_t offset,
                               uint32_t into_region,
                               uint64_t into_offset,
                               uint64_t count,
                               uint64_t tag);

// Adds to an aligned word of a peer's region; tag and what it was come back from fluxline_poll.
enum FluxlineCode fluxline_fetch_add(struct FluxlineNode *node,
                                     uint32_t endpoint,
                                     uint32_t remote,
                                     uint64_t offset,
                                     uint64_t add,
                                     uint64_t tag);

// Replaces an aligned word of a peer's region by desired if it is expected; tag and the word
// before come back from fluxline_poll.
enum FluxlineCode fluxline_compare_swap(struct FluxlineNode *node,
                                        uint32_t endpoint,
                                        uint32_t remote,
                                        uint64_t offset,
                                        uint64_t expected,
                                        uint64_t desired,
                                        uint64_t tag);

// Sends a message to the peer, which has posted a buffer for it; the bytes may be changed at once.
// The tag comes back from fluxline_poll when the message is in the peer's buffer.
enum FluxlineCode fluxline_send(struct FluxlineNode *node,
                                uint32_t endpoint,
                                const void *from,
                                size_t count,
                                uint64_t tag);

// Posts a part of an own region as the buffer for one message of the peer. The tag comes back from
// fluxline_poll with the number of bytes.
enum FluxlineCode fluxline_receive(struct FluxlineNode *node,
                                   uint32_t endpoint,
                                   uint32_t region,
                                   uint64_t offset,
                                   uint64_t count,
                                   uint64_t tag);

// Holds back all work that is posted after it until all work before it is placed. Its tag comes
// back from fluxline_poll at once; a later post may be FLUXLINE_CODE_FULL until then.
enum FluxlineCode fluxline_fence(struct FluxlineNode *node, uint32_t endpoint, uint64_t tag);

// Asks for a completion when all work before it is placed; the tag comes back from fluxline_poll.
enum FluxlineCode fluxline_flush(struct FluxlineNode *node, uint32_t endpoint, uint64_t tag);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FLUXLINE_H */
