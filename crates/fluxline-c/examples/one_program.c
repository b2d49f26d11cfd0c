// Demonstrates: one program for every link; its URLs choose the link. Each node is a thread.
//
//   one_program shm://lab/a shm://lab/b shm://lab/c
//   one_program udp://127.0.0.1:4801 udp://127.0.0.1:4802 udp://127.0.0.1:4803
//   one_program "sim:sci/lab/a?nodes=3&seed=7" "sim:sci/lab/b?nodes=3&seed=7" ...
//
// In each round every node puts a block into the memory of the next one, which adds the block's sum
// to a word of the first node and signals it. The first node then signals all. The last line is the
// same on every link; on sim: the time is virtual, and the same in each run.

#include "fluxline.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 16, ROUNDS = 20, WORDS = 500, PATIENCE_MS = 20000 };
static const uint64_t KEY = 0x5EED;

// Offsets in the region of each node.
enum { TOTAL = 0, BLOCK = 64, REGION = BLOCK + 8 * WORDS };

static int count;
static char **urls;

typedef struct Node {
  int place;
  FluxlineNode *node;
  uint32_t region;
  volatile uint64_t *words;
  // Connection and region of the next node and of the first one, or of all for the first one.
  uint32_t endpoint[NODES_MAX], remote[NODES_MAX];
  uint64_t total, took_ns;
  // Notifications that came before they were waited for: signals, blocks.
  int early[2];
  // Connections that have ended.
  int ended;
} Node;

// Ends the program with a sentence, unless the call succeeded.
static void check(enum FluxlineCode code, const char *what, const Node *at) {
  if (code != FLUXLINE_CODE_DONE) {
    fprintf(stderr, "%s: %s: %s\n", urls[at->place], what, fluxline_error());
    exit(1);
  }
}

// The name by which peers connect to the node of a URL.
static void name_of(const char *url, char *name, size_t room) {
  const char *first = strstr(url, "://") && (url[0] == 'u' || url[0] == 'x') ? strstr(url, "://") + 3
                                                                             : strrchr(url, '/') + 1;
  snprintf(name, room, "%.*s", (int)strcspn(first, "?"), first);
}

// Waits for a completion of this kind, and of this number of bytes if it is a notification. Notifications
// of another length are counted for later.
static FluxlineCompletion next(Node *at, FluxlineKind kind, uint64_t bytes) {
  uint64_t limit_ns, now_ns;
  uint32_t broken = 0;
  if (kind == FLUXLINE_KIND_NOTIFIED && at->early[bytes != 0] > 0) {
    at->early[bytes != 0]--;
    return (FluxlineCompletion){.kind = kind, .bytes = bytes};
  }
  check(fluxline_now_ns(at->node, &limit_ns), "the clock", at);
  limit_ns += PATIENCE_MS * UINT64_C(1000000);
  for (;;) {
    FluxlineCompletion found;
    FluxlineCode code = fluxline_poll(at->node, &found);
    if (code == FLUXLINE_CODE_DONE && found.kind == FLUXLINE_KIND_BROKEN) {
      broken = found.status; // a peer that has finished
      at->ended++;
      if (kind == FLUXLINE_KIND_BROKEN)
        return found;
    } else if (code == FLUXLINE_CODE_DONE && found.status != 0) {
      fprintf(stderr, "%s: %s\n", urls[at->place], fluxline_status_name(found.status));
      exit(1);
    } else if (code == FLUXLINE_CODE_DONE && found.kind == kind) {
      if (kind != FLUXLINE_KIND_NOTIFIED || found.bytes == bytes)
        return found;
      at->early[found.bytes != 0]++;
    }
    if (code == FLUXLINE_CODE_NOTHING) {
      check(fluxline_now_ns(at->node, &now_ns), "the clock", at);
      if (now_ns >= limit_ns) {
        fprintf(stderr, "%s: nothing came in time; the last connection: %s\n", urls[at->place],
                fluxline_status_name(broken));
        exit(1);
      }
      check(fluxline_wait_until_ns(at->node, limit_ns), "wait", at);
    }
  }
}

// Connects to a node, which may not be there yet, and imports its region.
static void reach(Node *at, int peer) {
  char name[128];
  uint64_t bytes;
  name_of(urls[peer], name, sizeof name);
  check(fluxline_connect(at->node, name, FLUXLINE_RELIABLE, PATIENCE_MS, &at->endpoint[peer]),
        "connect", at);
  check(fluxline_import(at->node, at->endpoint[peer], "words", KEY, PATIENCE_MS, &at->remote[peer],
                        &bytes),
        "import", at);
}

// One round: a block to the next node, the sum of the own block to the first, and the signal.
static void play(Node *at, int round) {
  int following = (at->place + 1) % count;
  uint64_t block[WORDS], sum = 0;
  for (int word = 0; word < WORDS; word++)
    block[word] = (uint64_t)(at->place + 1) * 1000003u + (uint64_t)round * 7919u + (uint64_t)word;
  FluxlineWork put = {.operation = FLUXLINE_OPERATION_PUT, .remote = at->remote[following],
                      .offset = BLOCK, .from = block, .count = sizeof block, .notify = 1,
                      .value = (uint32_t)round};
  size_t posted;
  check(fluxline_post(at->node, at->endpoint[following], &put, 1, &posted), "put", at);
  next(at, FLUXLINE_KIND_NOTIFIED, sizeof block);
  for (int word = 0; word < WORDS; word++)
    sum = sum * 31 + at->words[BLOCK / 8 + word];
  if (at->place != 0) {
    FluxlineWork add = {.operation = FLUXLINE_OPERATION_FETCH_ADD, .remote = at->remote[0],
                        .offset = TOTAL, .operand = sum};
    check(fluxline_post(at->node, at->endpoint[0], &add, 1, &posted), "add", at);
    next(at, FLUXLINE_KIND_COMPLETED, 0);
    check(fluxline_put(at->node, at->endpoint[0], at->remote[0], BLOCK, &sum, 0, round, -1), "put",
          at);
    next(at, FLUXLINE_KIND_NOTIFIED, 0);
    return;
  }
  at->total += sum;
  for (int peer = 1; peer < count; peer++)
    next(at, FLUXLINE_KIND_NOTIFIED, 0);
  for (int peer = 1; peer < count; peer++)
    check(fluxline_put(at->node, at->endpoint[peer], at->remote[peer], TOTAL, &sum, 0, round, -1),
          "put", at);
}

static void *run(void *given) {
  Node *at = given;
  uint64_t size, began_ns;
  void *address;
  check(fluxline_open(urls[at->place], &at->node), "open", at);
  check(fluxline_register(at->node, REGION, &at->region), "register", at);
  check(fluxline_memory(at->node, at->region, &address, &size), "memory", at);
  at->words = address;
  check(fluxline_export(at->node, at->region, "words", KEY, FLUXLINE_PUT | FLUXLINE_ATOMIC),
        "export", at);
  for (int peer = 0; peer < count; peer++)
    if (peer != at->place && (at->place == 0 || peer == 0 || peer == (at->place + 1) % count))
      reach(at, peer);
  check(fluxline_now_ns(at->node, &began_ns), "the clock", at);
  for (int round = 0; round < ROUNDS; round++)
    play(at, round);
  check(fluxline_now_ns(at->node, &at->took_ns), "the clock", at);
  at->took_ns -= began_ns;
  at->total += at->words[TOTAL / 8];
  // The first node ends last, so that its last signals arrive. Each peer has connected to it, and it
  // to each.
  while (at->place == 0 && at->ended < 2 * (count - 1))
    next(at, FLUXLINE_KIND_BROKEN, 0);
  fluxline_close(at->node);
  return NULL;
}

int main(int argc, char **argv) {
  static Node nodes[NODES_MAX];
  pthread_t threads[NODES_MAX];
  count = argc - 1;
  urls = argv + 1;
  if (count < 2 || count > NODES_MAX) {
    fprintf(stderr, "write 2 to %d URLs, one for each node\n", NODES_MAX);
    return 2;
  }
  for (int place = 0; place < count; place++) {
    nodes[place].place = place;
    if (pthread_create(&threads[place], NULL, run, &nodes[place]) != 0) {
      fprintf(stderr, "no thread for node %d\n", place);
      return 1;
    }
  }
  for (int place = 0; place < count; place++)
    pthread_join(threads[place], NULL);
  printf("%d rounds in %.1f us\n", ROUNDS, nodes[0].took_ns / 1e3);
  printf("total %016" PRIx64 "\n", nodes[0].total);
  return 0;
}
