/* An RDMA peer that is steered over TCP: the far end of the tests against Linux's software RDMA
 * device (rdma_rxe). It uses libibverbs only, as any program for an RDMA card does.
 *
 *   peer ADDRESS PORT      serves one connection after another until it is killed
 *
 * Each request is a line of words; each answer is one line, "ok ..." or "error ...":
 *
 *   region BYTES                         ok ADDRESS KEY       registers zeroed memory
 *   fill OFFSET BYTES SEED               ok                   writes a pattern of the seed
 *   hash OFFSET BYTES                    ok HASH              FNV-1a over the memory
 *   pair rc|uc PSN                       ok QPN               a queue pair, its first PSN to send
 *   connect QPN PSN ADDRESS MTU [RNR]    ok                   the other end of the last queue pair;
 *                                                             RNR retries, 7 (no limit) if left out
 *   write OFFSET BYTES REMOTE KEY [IMM]  ok                   posts, waits for the completion
 *   read OFFSET BYTES REMOTE KEY         ok
 *   add OFFSET REMOTE KEY VALUE          ok                   fetches into OFFSET and adds
 *   swap OFFSET REMOTE KEY OLD NEW       ok                   compares and swaps
 *   send OFFSET BYTES                    ok
 *   receive OFFSET BYTES                 ok                   posts a buffer
 *   packets FIRST COUNT SLOT SLOTS REMOTE KEY   ok            writes numbered packets with immediate
 *                                                             data, slot after slot from SLOT on
 *   completion                           ok BYTES IMM         waits for a received message
 *   close                                ok                   destroys the queue pair
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { QUEUE = 512, WAIT_S = 60, SLOT_BYTES = 1024, PACKET_BYTES = 400, UNDER_WAY = 64 };

struct peer {
  struct ibv_context *device;
  struct ibv_pd *domain;
  struct ibv_cq *sent, *received;
  struct ibv_qp *pair;
  struct ibv_mr *region;
  uint8_t *memory;
  uint64_t bytes;
  uint32_t first_psn;
  int gid_index;
  FILE *out;
};

static int answer(struct peer *p, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vfprintf(p->out, format, list);
  va_end(list);
  fputc('\n', p->out);
  fflush(p->out);
  return 0;
}

static int failed(struct peer *p, const char *what, int error) {
  return answer(p, "error %s: %s", what, strerror(error));
}

/* The same bytes as the other end's: xorshift64 from the seed, eight at a time. */
static void fill(uint8_t *at, uint64_t bytes, uint64_t seed) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint64_t i = 0; i < bytes; i += 8) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    for (uint64_t j = 0; j < 8 && i + j < bytes; j++) at[i + j] = (uint8_t)(x >> (8 * j));
  }
}

static uint64_t hash(const uint8_t *at, uint64_t bytes) {
  uint64_t h = 0xcbf29ce484222325u;
  for (uint64_t i = 0; i < bytes; i++) h = (h ^ at[i]) * 0x100000001b3u;
  return h;
}

static int is_inside(struct peer *p, uint64_t offset, uint64_t bytes) {
  return offset <= p->bytes && bytes <= p->bytes - offset;
}

/* The index of the address in the device's table of GIDs, or -1. */
static int find_gid(struct ibv_context *device, const char *address) {
  union ibv_gid wanted = {{0}}, found;
  if (inet_pton(AF_INET, address, wanted.raw + 12) == 1) {
    wanted.raw[10] = wanted.raw[11] = 0xff;
  } else if (inet_pton(AF_INET6, address, wanted.raw) != 1) {
    return -1;
  }
  for (int i = 0; i < 16; i++)
    if (!ibv_query_gid(device, 1, i, &found) && !memcmp(&found, &wanted, 16)) return i;
  return -1;
}

static int region(struct peer *p, uint64_t bytes) {
  int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
               IBV_ACCESS_REMOTE_ATOMIC;
  if (p->region) ibv_dereg_mr(p->region), p->region = NULL;
  free(p->memory);
  p->memory = NULL, p->bytes = 0;
  if (!bytes || posix_memalign((void **)&p->memory, 4096, bytes)) return failed(p, "memory", ENOMEM);
  memset(p->memory, 0, bytes);
  p->bytes = bytes;
  p->region = ibv_reg_mr(p->domain, p->memory, bytes, rights);
  if (!p->region) return failed(p, "ibv_reg_mr", errno);
  return answer(p, "ok %lu %u", (uint64_t)(uintptr_t)p->memory, p->region->rkey);
}

static void close_pair(struct peer *p) {
  struct ibv_wc done;
  if (p->pair) ibv_destroy_qp(p->pair), p->pair = NULL;
  while (ibv_poll_cq(p->sent, 1, &done) > 0) {}
  while (ibv_poll_cq(p->received, 1, &done) > 0) {}
}

static int make_pair(struct peer *p, const char *kind, uint32_t psn) {
  struct ibv_qp_init_attr make = {.send_cq = p->sent, .recv_cq = p->received};
  struct ibv_qp_attr set = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  make.qp_type = strcmp(kind, "uc") ? IBV_QPT_RC : IBV_QPT_UC;
  make.cap.max_send_wr = make.cap.max_recv_wr = QUEUE;
  make.cap.max_send_sge = make.cap.max_recv_sge = 1;
  close_pair(p);
  p->pair = ibv_create_qp(p->domain, &make);
  if (!p->pair) return failed(p, "ibv_create_qp", errno);
  set.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (make.qp_type == IBV_QPT_RC)
    set.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  int bad = ibv_modify_qp(p->pair, &set,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (bad) return failed(p, "to INIT", bad);
  p->first_psn = psn;
  return answer(p, "ok %u", p->pair->qp_num);
}

static int connect_pair(struct peer *p, char **w, int rnr_retry) {
  uint32_t qpn = (uint32_t)strtoul(w[1], NULL, 0), psn = (uint32_t)strtoul(w[2], NULL, 0);
  const char *to = w[3];
  int mtu = atoi(w[4]);
  struct ibv_qp_attr set = {.qp_state = IBV_QPS_RTR, .dest_qp_num = qpn, .rq_psn = psn};
  int is_rc = p->pair && p->pair->qp_type == IBV_QPT_RC;
  if (!p->pair) return failed(p, "no queue pair", EINVAL);
  set.path_mtu = mtu == 4096 ? IBV_MTU_4096 : mtu == 2048 ? IBV_MTU_2048 : IBV_MTU_1024;
  set.ah_attr.is_global = 1, set.ah_attr.port_num = 1;
  set.ah_attr.grh.hop_limit = 64, set.ah_attr.grh.sgid_index = p->gid_index;
  uint8_t *gid = set.ah_attr.grh.dgid.raw;
  if (inet_pton(AF_INET, to, gid + 12) == 1) gid[10] = gid[11] = 0xff;
  else if (inet_pton(AF_INET6, to, gid) != 1) return failed(p, "address", EINVAL);
  set.max_dest_rd_atomic = 16, set.min_rnr_timer = 12;
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (is_rc) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  int bad = ibv_modify_qp(p->pair, &set, mask);
  if (bad) return failed(p, "to RTR", bad);
  struct ibv_qp_attr go = {.qp_state = IBV_QPS_RTS, .sq_psn = p->first_psn};
  go.timeout = 14, go.retry_cnt = 7, go.rnr_retry = (uint8_t)rnr_retry, go.max_rd_atomic = 16;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (is_rc)
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  bad = ibv_modify_qp(p->pair, &go, mask);
  return bad ? failed(p, "to RTS", bad) : answer(p, "ok");
}

/* Waits for one completion, at most WAIT_S. */
static int wait_for(struct ibv_cq *queue, struct ibv_wc *done) {
  time_t end = time(NULL) + WAIT_S;
  for (;;) {
    int count = ibv_poll_cq(queue, 1, done);
    if (count) return count;
    if (time(NULL) > end) return 0;
    usleep(50);
  }
}

static int post(struct peer *p, struct ibv_send_wr *work, uint64_t offset, uint64_t bytes) {
  struct ibv_send_wr *rejected;
  struct ibv_wc done;
  if (!p->pair || !p->region) return failed(p, "no queue pair or region", EINVAL);
  if (!is_inside(p, offset, bytes)) return failed(p, "outside of the region", ERANGE);
  struct ibv_sge part = {(uintptr_t)(p->memory + offset), (uint32_t)bytes, p->region->lkey};
  work->sg_list = &part, work->num_sge = 1, work->send_flags = IBV_SEND_SIGNALED;
  int bad = ibv_post_send(p->pair, work, &rejected);
  if (bad) return failed(p, "ibv_post_send", bad);
  if (wait_for(p->sent, &done) <= 0) return failed(p, "no completion", ETIMEDOUT);
  if (done.status) return answer(p, "error %s", ibv_wc_status_str(done.status));
  return answer(p, "ok");
}

/* A packet of the description `counter` with this number. */
static void make_packet(uint8_t *at, uint64_t number) {
  memset(at, 0, PACKET_BYTES);
  memcpy(at, "FLXC\1", 5);
  for (int i = 0; i < 4; i++) at[8 + i] = (uint8_t)(number >> (8 * i));
  at[14] = 1;
  for (int i = 0; i < 8; i++) at[16 + i] = (uint8_t)(number >> (8 * i));
}

/* Writes packets into a ring of slots; some are under way at a time, as an FPGA does it. */
static int packets(struct peer *p, char **w) {
  uint64_t first = strtoull(w[1], NULL, 0), count = strtoull(w[2], NULL, 0);
  uint64_t slot = strtoull(w[3], NULL, 0), slots = strtoull(w[4], NULL, 0);
  uint64_t remote = strtoull(w[5], NULL, 0), key = strtoull(w[6], NULL, 0), posted = 0, done = 0;
  if (!p->pair || !p->region || p->bytes < UNDER_WAY * SLOT_BYTES || !slots)
    return failed(p, "no queue pair, region or slots", EINVAL);
  while (done < count) {
    if (posted < count && posted - done < UNDER_WAY) {
      uint8_t *at = p->memory + posted % UNDER_WAY * SLOT_BYTES;
      make_packet(at, first + posted);
      struct ibv_sge part = {(uintptr_t)at, PACKET_BYTES, p->region->lkey};
      struct ibv_send_wr *rejected, work = {.sg_list = &part, .num_sge = 1};
      work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, work.send_flags = IBV_SEND_SIGNALED;
      work.imm_data = htonl((uint32_t)(first + posted));
      work.wr.rdma.remote_addr = remote + (slot + posted) % slots * SLOT_BYTES;
      work.wr.rdma.rkey = (uint32_t)key;
      int bad = ibv_post_send(p->pair, &work, &rejected);
      if (bad) return failed(p, "ibv_post_send", bad);
      posted++;
      continue;
    }
    struct ibv_wc of;
    if (wait_for(p->sent, &of) <= 0) return failed(p, "no completion", ETIMEDOUT);
    if (of.status) return answer(p, "error %s after %lu", ibv_wc_status_str(of.status), done);
    done++;
  }
  return answer(p, "ok");
}

static int receive(struct peer *p, uint64_t offset, uint64_t bytes) {
  struct ibv_recv_wr *rejected, work = {0};
  if (!p->pair || !p->region) return failed(p, "no queue pair or region", EINVAL);
  if (!is_inside(p, offset, bytes)) return failed(p, "outside of the region", ERANGE);
  struct ibv_sge part = {(uintptr_t)(p->memory + offset), (uint32_t)bytes, p->region->lkey};
  work.sg_list = &part, work.num_sge = 1;
  int bad = ibv_post_recv(p->pair, &work, &rejected);
  return bad ? failed(p, "ibv_post_recv", bad) : answer(p, "ok");
}

static int completion(struct peer *p) {
  struct ibv_wc done;
  if (wait_for(p->received, &done) <= 0) return failed(p, "no completion", ETIMEDOUT);
  if (done.status) return answer(p, "error %s", ibv_wc_status_str(done.status));
  uint32_t imm = done.wc_flags & IBV_WC_WITH_IMM ? ntohl(done.imm_data) : 0;
  return answer(p, "ok %u %u", done.byte_len, imm);
}

static uint64_t number(char **words, int at) { return words[at] ? strtoull(words[at], NULL, 0) : 0; }

static int request(struct peer *p, char **w, int count) {
  struct ibv_send_wr work = {0};
  const char *verb = count ? w[0] : "";
  uint64_t a = number(w, 1), b = number(w, 2);
  work.wr.rdma.remote_addr = number(w, 3), work.wr.rdma.rkey = (uint32_t)number(w, 4);
  if (!strcmp(verb, "region") && count == 2) return region(p, a);
  if (!strcmp(verb, "pair") && count == 3) return make_pair(p, w[1], (uint32_t)b);
  if (!strcmp(verb, "connect") && (count == 5 || count == 6))
    return connect_pair(p, w, count == 6 ? atoi(w[5]) : 7);
  if (!strcmp(verb, "receive") && count == 3) return receive(p, a, b);
  if (!strcmp(verb, "packets") && count == 7) return packets(p, w);
  if (!strcmp(verb, "completion")) return completion(p);
  if (!strcmp(verb, "close")) return close_pair(p), answer(p, "ok");
  if (!strcmp(verb, "write") && count >= 5) {
    work.opcode = count > 5 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    work.imm_data = htonl((uint32_t)number(w, 5));
    return post(p, &work, a, b);
  }
  if (!strcmp(verb, "read") && count == 5)
    return work.opcode = IBV_WR_RDMA_READ, post(p, &work, a, b);
  if (!strcmp(verb, "send") && count == 3) return work.opcode = IBV_WR_SEND, post(p, &work, a, b);
  if ((!strcmp(verb, "add") && count == 5) || (!strcmp(verb, "swap") && count == 6)) {
    work.opcode = *verb == 'a' ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
    work.wr.atomic.remote_addr = b, work.wr.atomic.rkey = (uint32_t)number(w, 3);
    work.wr.atomic.compare_add = number(w, 4), work.wr.atomic.swap = number(w, 5);
    return post(p, &work, a, 8);
  }
  if (!is_inside(p, a, b)) return failed(p, "outside of the region", ERANGE);
  if (!strcmp(verb, "fill") && count == 4) return fill(p->memory + a, b, number(w, 3)), answer(p, "ok");
  if (!strcmp(verb, "hash") && count == 3) return answer(p, "ok %lu", hash(p->memory + a, b));
  return failed(p, "unknown request", EINVAL);
}

static void serve(struct peer *p, int socket) {
  char line[256];
  FILE *in = fdopen(socket, "r");
  p->out = fdopen(dup(socket), "w");
  while (in && p->out && fgets(line, sizeof line, in)) {
    char *words[8] = {0}, *rest = line;
    int count = 0;
    while (count < 7 && (words[count] = strsep(&rest, " \n")) && *words[count]) count++;
    words[count] = NULL;
    request(p, words, count);
  }
  if (in) fclose(in);
  if (p->out) fclose(p->out);
  close_pair(p);
}

int main(int count, char **arguments) {
  struct peer p = {0};
  struct ibv_device **list = ibv_get_device_list(NULL);
  if (count != 3 || !list || !*list) return fprintf(stderr, "peer ADDRESS PORT; needs a device\n"), 1;
  p.device = ibv_open_device(*list);
  if (!p.device || !(p.domain = ibv_alloc_pd(p.device))) return perror("the device"), 1;
  p.sent = ibv_create_cq(p.device, QUEUE, NULL, NULL, 0);
  p.received = ibv_create_cq(p.device, QUEUE, NULL, NULL, 0);
  if (!p.sent || !p.received) return perror("completion queues"), 1;
  p.gid_index = find_gid(p.device, arguments[1]);
  if (p.gid_index < 0) return fprintf(stderr, "%s is not an address of the device\n", arguments[1]), 1;
  struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_port = htons(atoi(arguments[2]))};
  int door = socket(AF_INET6, SOCK_STREAM, 0), yes = 1;
  setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(door, (void *)&here, sizeof here) || listen(door, 4)) return perror("listen"), 1;
  for (int client; (client = accept(door, NULL, NULL)) >= 0;) serve(&p, client);
  return 0;
}
