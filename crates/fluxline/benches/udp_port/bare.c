/* A bare UDP sender and receiver: the yardstick of the benches `udp_port` and `roce`. One thread,
 * one core. ADDRESS in the environment: where the receiver is; else loopback.
 *
 *   bare send PORT PAYLOAD TRAIN SECONDS CORE   sendmmsg of trains (UDP_SEGMENT) or of single ones
 *   bare receive PORT GRO NAP_US SECONDS CORE   recvmmsg; NAP_US below 0: polls without a pause
 *   bare ping PORT BYTES COUNT CORE             COUNT round trips, polling; prints p50 and p99 [ns]
 *   bare echo PORT CORE                         the other end of it
 *
 * Streams touch eight bytes of each datagram, as the port's side of the bench does, and print:
 * datagrams bytes seconds lost user system, the last two the processor's time [s]. PACE in the
 * environment: datagrams a second; else as fast as it goes. WALK in the environment: bytes of memory
 * that the messages are sent from and received into, one behind the other; else always the same.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define UDP_SEGMENT_OPTION 103
#define UDP_GRO_OPTION 104
#define LEVEL_UDP 17
#define BATCH 64
#define ROOM (65536 + 320)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static struct sockaddr_in address_of(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    const char *text = getenv("ADDRESS");
    a.sin_addr.s_addr = text ? inet_addr(text) : htonl(INADDR_LOOPBACK);
    return a;
}

/* The messages that fit the memory to walk; 0: no walk. */
static size_t walk_slots(size_t length) {
    const char *text = getenv("WALK");
    return text ? strtoull(text, NULL, 10) / length : 0;
}

static double seconds_of(struct timeval t) { return t.tv_sec + t.tv_usec * 1e-6; }

static struct rusage used(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u;
}

static void print_stream(uint64_t datagrams, uint64_t bytes, double seconds,
                         long long lost, struct rusage before) {
    struct rusage after = used();
    printf("%llu %llu %f %lld %f %f\n", (unsigned long long)datagrams, (unsigned long long)bytes,
           seconds, lost, seconds_of(after.ru_utime) - seconds_of(before.ru_utime),
           seconds_of(after.ru_stime) - seconds_of(before.ru_stime));
}

static int send_all(char **arg) {
    int port = atoi(arg[0]), payload = atoi(arg[1]), train = atoi(arg[2]);
    double seconds = atof(arg[3]);
    pin(atoi(arg[4]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0), probe = IP_PMTUDISC_PROBE, buffer = 4 << 20;
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
    int messages = train > 1 ? 4 : BATCH;
    size_t length = (size_t)payload * train;
    if (messages * length > 4 * 65536) messages = 4 * 65536 / length;
    struct sockaddr_in to = address_of(port);
    struct mmsghdr headers[BATCH];
    struct iovec vectors[BATCH];
    union { struct cmsghdr head; char bytes[CMSG_SPACE(2)]; } controls[BATCH];
    size_t slots = walk_slots(length), next = 0;
    size_t rooms = slots > (size_t)messages ? slots : (size_t)messages;
    char *room = calloc(rooms, length);
    memset(room, 1, rooms * length);
    memset(headers, 0, sizeof headers);
    for (int i = 0; i < messages; i++) {
        vectors[i] = (struct iovec){room + i * length, length};
        struct msghdr *h = &headers[i].msg_hdr;
        h->msg_name = &to, h->msg_namelen = sizeof to;
        h->msg_iov = &vectors[i], h->msg_iovlen = 1;
        if (train > 1) {
            controls[i].head.cmsg_len = CMSG_LEN(2);
            controls[i].head.cmsg_level = LEVEL_UDP;
            controls[i].head.cmsg_type = UDP_SEGMENT_OPTION;
            *(uint16_t *)CMSG_DATA(&controls[i].head) = payload;
            h->msg_control = controls[i].bytes, h->msg_controllen = sizeof controls[i].bytes;
        }
    }
    uint64_t number = 0, sent = 0;
    struct rusage before = used();
    const char *pace = getenv("PACE");
    double rate = pace ? atof(pace) : 0;
    if (rate > 0 && messages > 16) messages = 16; /* small batches keep the pace even */
    double begin = now(), end = begin + seconds;
    while (now() < end) {
        for (int i = 0; i < messages; i++) {
            char *message = room + (size_t)i * length;
            if (slots > 0) message = room + (next++ % slots) * length;
            vectors[i].iov_base = message;
            for (int k = 0; k < train; k++, number++)
                memcpy(message + (size_t)k * payload, &number, sizeof number);
        }
        int count = sendmmsg(fd, headers, messages, 0);
        sent += count > 0 ? count : 0;
        if (rate > 0) while (now() < begin + sent * train / rate) {}
    }
    print_stream(sent * train, sent * length, now() - begin, 0, before);
    return 0;
}

static int receive_all(char **arg) {
    int port = atoi(arg[0]), gro = atoi(arg[1]), nap_us = atoi(arg[2]);
    double seconds = atof(arg[3]);
    pin(atoi(arg[4]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0), buffer = 64 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    setsockopt(fd, LEVEL_UDP, UDP_GRO_OPTION, &gro, sizeof gro);
    struct sockaddr_in own = address_of(port);
    if (bind(fd, (struct sockaddr *)&own, sizeof own)) return perror("bind"), 1;
    static struct mmsghdr headers[BATCH];
    static struct iovec vectors[BATCH];
    static union { struct cmsghdr head; char bytes[64]; } controls[BATCH];
    static struct sockaddr_in from[BATCH];
    size_t slots = walk_slots(ROOM), next = 0, rooms = slots > BATCH ? slots : BATCH;
    char *room = calloc(rooms, ROOM);
    memset(room, 1, rooms * ROOM);
    uint64_t datagrams = 0, bytes = 0, lowest = UINT64_MAX, highest = 0;
    double first = 0, last = 0;
    struct rusage before = used();
    puts("ready"), fflush(stdout);
    for (;;) {
        for (int i = 0; i < BATCH; i++) {
            size_t slot = slots > 0 ? (next + i) % slots : (size_t)i;
            vectors[i] = (struct iovec){room + slot * ROOM, ROOM};
            headers[i].msg_hdr = (struct msghdr){.msg_name = &from[i], .msg_namelen = sizeof from[i],
                .msg_iov = &vectors[i], .msg_iovlen = 1, .msg_control = controls[i].bytes,
                .msg_controllen = sizeof controls[i].bytes};
        }
        int count = recvmmsg(fd, headers, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < count; i++) {
            size_t length = headers[i].msg_len, segment = length;
            struct msghdr *h = &headers[i].msg_hdr;
            for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
                if (c->cmsg_level == LEVEL_UDP && c->cmsg_type == UDP_GRO_OPTION)
                    segment = *(int *)CMSG_DATA(c);
            for (size_t at = 0; at < length; at += segment, datagrams++) {
                uint64_t number;
                memcpy(&number, (char *)vectors[i].iov_base + at, sizeof number);
                if (number < lowest) lowest = number;
                if (number > highest) highest = number;
            }
            bytes += length;
        }
        double t = now();
        if (count > 0) {
            next += count;
            last = t;
            if (first == 0) first = t, before = used();
        }
        if (first != 0 && t > first + seconds) break;
        if (count < BATCH && nap_us >= 0) {
            if (nap_us && count > 0) usleep(nap_us);
            struct pollfd p = {fd, POLLIN, 0};
            if (count <= 0) {
                if (poll(&p, 1, 1000) == 0) break;
                if (nap_us) usleep(nap_us);
            }
        }
    }
    long long lost = datagrams ? (long long)(highest - lowest + 1 - datagrams) : 0;
    print_stream(datagrams, bytes, last - first, lost, before);
    return 0;
}

static int by_number(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int echo_all(char **arg) {
    pin(atoi(arg[1]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in own = address_of(atoi(arg[0])), from;
    if (bind(fd, (struct sockaddr *)&own, sizeof own)) return perror("bind"), 1;
    puts("ready"), fflush(stdout);
    char room[65536];
    for (;;) {
        socklen_t length = sizeof from;
        ssize_t bytes = recvfrom(fd, room, sizeof room, MSG_DONTWAIT, (void *)&from, &length);
        if (bytes == 1) return 0; /* the end */
        if (bytes > 0) sendto(fd, room, bytes, 0, (void *)&from, sizeof from);
    }
}

static int ping_all(char **arg) {
    int bytes = atoi(arg[1]), count = atoi(arg[2]);
    pin(atoi(arg[3]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in to = address_of(atoi(arg[0]));
    char room[65536] = {0};
    double *trips = calloc(count, sizeof *trips);
    for (int i = 0; i < count; i++) {
        double begin = now();
        sendto(fd, room, bytes, 0, (void *)&to, sizeof to);
        while (recv(fd, room, sizeof room, MSG_DONTWAIT) <= 0) {}
        trips[i] = (now() - begin) * 1e9;
    }
    sendto(fd, room, 1, 0, (void *)&to, sizeof to);
    qsort(trips, count, sizeof *trips, by_number);
    printf("%f %f\n", trips[count / 2], trips[count / 100 * 99]);
    return 0;
}

int main(int count, char **arg) {
    if (count == 7 && !strcmp(arg[1], "send")) return send_all(arg + 2);
    if (count == 7 && !strcmp(arg[1], "receive")) return receive_all(arg + 2);
    if (count == 6 && !strcmp(arg[1], "ping")) return ping_all(arg + 2);
    if (count == 4 && !strcmp(arg[1], "echo")) return echo_all(arg + 2);
    fputs("usage: bare send PORT PAYLOAD TRAIN SECONDS CORE | "
          "bare receive PORT GRO NAP_US SECONDS CORE | bare ping PORT BYTES COUNT CORE | "
          "bare echo PORT CORE\n", stderr);
    return 2;
}
