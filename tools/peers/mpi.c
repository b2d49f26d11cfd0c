/* MPI between two processes: mpirun -np 2 mpi trip|rate BYTES COUNT CORE0 CORE1 prints half a round
 * trip (p50, ns) or messages per second. Nobody reads what comes beyond what MPI copies. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW 64

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void trips(int rank, char *out, char *in, int bytes, long count) {
    double *times = malloc(sizeof(double) * (size_t)count);
    for (long at = 0; at < count; at++) {
        if (rank == 0) {
            double began = now_ns();
            MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            times[at] = now_ns() - began;
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
    if (rank == 0) {
        qsort(times, (size_t)count, sizeof(double), by_size);
        printf("%f\n", times[count / 2] / 2);
    }
    free(times);
}

static void rate(int rank, char *out, char *in, int bytes, long count) {
    MPI_Request requests[WINDOW];
    char done = 0;
    double began = now_ns();
    for (long at = 0; at < count;) {
        int posted = 0;
        for (; posted < WINDOW && at < count; posted++, at++) {
            if (rank == 0)
                MPI_Isend(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[posted]);
            else
                MPI_Irecv(in, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[posted]);
        }
        MPI_Waitall(posted, requests, MPI_STATUSES_IGNORE);
    }
    if (rank == 0) {
        MPI_Recv(&done, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("%f\n", (double)count / (now_ns() - began) * 1e9);
    } else {
        MPI_Send(&done, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    int rank;
    cpu_set_t set;
    MPI_Init(&argc, &argv);
    if (argc != 6) return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[4 + rank]), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    int bytes = atoi(argv[2]);
    long count = atol(argv[3]);
    char *out = calloc(1, (size_t)bytes), *in = calloc(1, (size_t)bytes);
    if (!out || !in) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    (strcmp(argv[1], "trip") == 0 ? trips : rate)(rank, out, in, bytes, count);
    MPI_Finalize();
    return 0;
}
