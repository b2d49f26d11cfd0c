/* ZeroMQ between two processes, PAIR over ipc://: zeromq trip|rate BYTES COUNT CORE0 CORE1 PATH
 * prints half a round trip (p50, ns) or messages per second. Nobody reads what comes. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void take(void *socket) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    if (zmq_msg_recv(&message, socket, 0) < 0) exit(1);
    zmq_msg_close(&message);
}

static void give(void *socket, const char *data, size_t bytes) {
    if (zmq_send(socket, data, bytes, 0) < 0) exit(1);
}

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    int is_trip = strcmp(argv[1], "trip") == 0;
    size_t bytes = (size_t)atol(argv[2]);
    long count = atol(argv[3]);
    char address[512];
    snprintf(address, sizeof address, "ipc://%s", argv[6]);
    char *data = calloc(1, bytes);
    double *times = malloc(sizeof(double) * (size_t)count);
    if (!data || !times) return 1;

    pid_t child = fork();
    int is_child = child == 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[is_child ? 5 : 4]), &set);
    if (child < 0 || sched_setaffinity(0, sizeof set, &set) != 0) return 1;
    /* After pinning: its own thread inherits the core. */
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_PAIR);
    if ((is_child ? zmq_connect : zmq_bind)(socket, address) != 0) return 1;
    if (is_child) {
        give(socket, data, 1);
        for (long at = 0; at < count; at++) {
            take(socket);
            if (is_trip) give(socket, data, bytes);
        }
        if (!is_trip) give(socket, data, 1);
    } else {
        take(socket); /* it is there */
        double all = now_ns();
        for (long at = 0; at < count; at++) {
            double began = now_ns();
            give(socket, data, bytes);
            if (is_trip) take(socket);
            times[at] = now_ns() - began;
        }
        if (!is_trip) take(socket);
        all = now_ns() - all;
        qsort(times, (size_t)count, sizeof(double), by_size);
        printf("%f\n", is_trip ? times[count / 2] / 2 : (double)count / all * 1e9);
    }
    zmq_close(socket);
    zmq_ctx_destroy(context);
    if (!is_child) waitpid(child, NULL, 0);
    return 0;
}
