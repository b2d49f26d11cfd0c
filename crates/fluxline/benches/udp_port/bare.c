/* A bare UDP sender and receiver: the yardstick of the bench `udp_port`. One thread, one core.
 *
 *   bare send PORT PAYLOAD TRAIN SECONDS CORE   sendmmsg of trains (UDP_SEGMENT) or of single ones
 *   bare receive PORT GRO NAP_US SECONDS CORE   recvmmsg; prints: datagrams bytes seconds
 *
 * Both touch eight bytes of each datagram, as the port's side of the bench does.
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

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
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
    struct sockaddr_in to = loopback(port);
    struct mmsghdr headers[BATCH];
    struct iovec vectors[BATCH];
    union { struct cmsghdr head; char bytes[CMSG_SPACE(2)]; } controls[BATCH];
    char *room = calloc(messages, length);
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
    uint64_t number = 0;
    double end = now() + seconds;
    while (now() < end) {
        for (int i = 0; i < messages * train; i++, number++)
            memcpy(room + (size_t)i * payload, &number, sizeof number);
        sendmmsg(fd, headers, messages, 0);
    }
    return 0;
}

static int receive_all(char **arg) {
    int port = atoi(arg[0]), gro = atoi(arg[1]), nap_us = atoi(arg[2]);
    double seconds = atof(arg[3]);
    pin(atoi(arg[4]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0), buffer = 64 << 20;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    setsockopt(fd, LEVEL_UDP, UDP_GRO_OPTION, &gro, sizeof gro);
    struct sockaddr_in own = loopback(port);
    if (bind(fd, (struct sockaddr *)&own, sizeof own)) return perror("bind"), 1;
    static struct mmsghdr headers[BATCH];
    static struct iovec vectors[BATCH];
    static union { struct cmsghdr head; char bytes[64]; } controls[BATCH];
    static struct sockaddr_in from[BATCH];
    char *room = calloc(BATCH, ROOM);
    memset(room, 1, (size_t)BATCH * ROOM);
    uint64_t datagrams = 0, bytes = 0, sum = 0;
    double first = 0, last = 0;
    puts("ready"), fflush(stdout);
    for (;;) {
        for (int i = 0; i < BATCH; i++) {
            vectors[i] = (struct iovec){room + (size_t)i * ROOM, ROOM};
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
                sum += number;
            }
            bytes += length;
        }
        double t = now();
        if (count > 0) {
            last = t;
            if (first == 0) first = t;
        }
        if (first != 0 && t > first + seconds) break;
        if (count < BATCH) {
            if (nap_us && count > 0) usleep(nap_us);
            struct pollfd p = {fd, POLLIN, 0};
            if (count <= 0) {
                if (poll(&p, 1, 1000) == 0) break;
                if (nap_us) usleep(nap_us);
            }
        }
    }
    printf("%llu %llu %f %d\n", (unsigned long long)datagrams, (unsigned long long)bytes,
           last - first, (int)(sum & 1));
    return 0;
}

int main(int count, char **arg) {
    if (count == 7 && !strcmp(arg[1], "send")) return send_all(arg + 2);
    if (count == 7 && !strcmp(arg[1], "receive")) return receive_all(arg + 2);
    fputs("usage: bare send PORT PAYLOAD TRAIN SECONDS CORE | "
          "bare receive PORT GRO NAP_US SECONDS CORE\n", stderr);
    return 2;
}
