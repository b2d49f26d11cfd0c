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

// A completion, from fluxline_poll.
typedef enum FluxlineKind {
  // Work posted with a tag is done; see status.
  FLUXLINE_KIND_COMPLETED = 0,
  // A peer's put with a notification is in place.
  FLUXLINE_KIND_NOTIFIED = 1,
  // A peer has connected.
  FLUXLINE_KIND_CONNECTED = 2,
  // A connection is over; see status.
  FLUXLINE_KIND_BROKEN = 3,
} FluxlineKind;

// The reading end of a push ring.
typedef struct FluxlineConsumer FluxlineConsumer;

// A node on a link.
typedef struct FluxlineNode FluxlineNode;

// The writing end of a push ring.
typedef struct FluxlineProducer FluxlineProducer;

// Something that became of posted work, or came from a peer.
typedef struct FluxlineCompletion {
  // The kind of completion.
  enum FluxlineKind kind;
  // The connection.
  uint32_t endpoint;
  // Completed: the caller's tag.
  uint64_t tag;
  // Completed, Broken: 0 is well, anything else is not.
  uint32_t status;
  // Notified: which own region.
  uint32_t region;
  // Notified: where the bytes begin.
  uint64_t offset;
  // Notified: how many bytes.
  uint64_t bytes;
  // Notified: the peer's value. Completed: what the word was, for atomics.
  uint64_t value;
} FluxlineCompletion;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The sentence of this thread's last failure; valid until its next call.
const char *fluxline_error(void);

// Opens a node: url is shm://GROUP/NODE. The node is written to *node.
enum FluxlineCode fluxline_open(const char *url, struct FluxlineNode **node);

// Ends a node, its regions and connections. Close its producers and consumers first.
void fluxline_close(struct FluxlineNode *node);

// Makes a region of zero bytes; its number is written to *region.
enum FluxlineCode fluxline_register(struct FluxlineNode *node, uint64_t bytes, uint32_t *region);

// Ends a region: peers' later work on it fails, and its name and memory are given back. A push
// ring's memory is given back when its consumer is closed, too.
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

// Connects to a node of the group and waits for it; the connection is written to *endpoint.
enum FluxlineCode fluxline_connect(struct FluxlineNode *node,
                                   const char *peer,
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

// Writes into a peer's region; the bytes may be changed at once. notify: -1 for none, else a value
// of 32 bits that the owner is told after the bytes are in place. tag: comes back from
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

// The next thing that happened, written to *completion; FLUXLINE_CODE_NOTHING: nothing new. Call
// it regularly: connections of peers are taken up in here.
enum FluxlineCode fluxline_poll(struct FluxlineNode *node, struct FluxlineCompletion *completion);

// Sleeps until fluxline_poll has something, at most so long.
enum FluxlineCode fluxline_wait(struct FluxlineNode *node, uint32_t timeout_ms);

// Claims the push ring in a peer's region, and writes the new producer to *producer. A ring has
// one producer at a time. FLUXLINE_CODE_REFUSED: the ring has a producer, or is not a push ring.
enum FluxlineCode fluxline_producer(struct FluxlineNode *node,
                                    uint32_t remote,
                                    struct FluxlineProducer **producer);

// Copies a record into the ring; nobody sees it before fluxline_publish. FLUXLINE_CODE_FULL: try
// again after a while. FLUXLINE_CODE_GONE, for good: the consumer has closed or died, which
// whoever tries again is told within 100 ms, or after 64 tries if these are rarer.
enum FluxlineCode fluxline_push(struct FluxlineProducer *producer, const void *from, size_t count);

// Shows all records to the consumer; call once per batch. FLUXLINE_CODE_GONE: nobody reads them.
enum FluxlineCode fluxline_publish(struct FluxlineProducer *producer);

// Publishes what is left and ends the producer.
void fluxline_producer_close(struct FluxlineProducer *producer);

// Makes a push ring of so many bytes (a power of two); its region, to be exported with
// FLUXLINE_PUT, is written to *region, the consumer to *consumer.
enum FluxlineCode fluxline_consumer(struct FluxlineNode *node,
                                    uint64_t ring_bytes,
                                    uint32_t *region,
                                    struct FluxlineConsumer **consumer);

// The oldest record, in place until the next call: its address to *record, its size to *count. The
// producer's process can change these bytes at any time: copy what you check before you use it.
// FLUXLINE_CODE_NOTHING: there is none now. FLUXLINE_CODE_GONE: none, and the producer has closed
// or died; another may come. FLUXLINE_CODE_REFUSED, for good: the producer broke the ring.
enum FluxlineCode fluxline_next(struct FluxlineConsumer *consumer,
                                const void **record,
                                size_t *count);

// Sleeps until there is a record, at most so long.
enum FluxlineCode fluxline_consumer_wait(struct FluxlineConsumer *consumer, uint32_t timeout_ms);

// Ends the consumer.
void fluxline_consumer_close(struct FluxlineConsumer *consumer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FLUXLINE_H */
