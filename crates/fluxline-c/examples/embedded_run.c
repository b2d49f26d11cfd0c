// Demonstrates: an acquisition within a program of C. Four emulated boards send over UDP; counters
// are printed each 200 ms, the summary's first sentence and the run folder at the end.
//
//   embedded_run [EXPERIMENT.toml]

#include "fluxline.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static const char BOARDS[] = "name = \"embedded\"\n"
                             "runs = \"runs\"\n"
                             "[[source]]\n"
                             "name = \"boards\"\n"
                             "format = \"counter\"\n"
                             "[source.emulator]\n"
                             "sources = 4\n"
                             "rate = 500.0\n"
                             "[events]\n"
                             "build = \"key\"\n"
                             "require = 4\n";

int main(int argc, char **argv) {
  FluxlineRun *run;
  FluxlineCode code = argc > 1 ? fluxline_run_start(argv[1], &run)
                               : fluxline_run_start_text("boards", BOARDS, &run);
  if (code != FLUXLINE_CODE_DONE) {
    fprintf(stderr, "%s\n", fluxline_error());
    return 2;
  }
  for (int look = 0; look < 5; look++) {
    FluxlineRunStats stats;
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    if (fluxline_run_stats(run, &stats) == FLUXLINE_CODE_DONE)
      printf("%" PRIu64 " packets, %" PRIu64 " events, %" PRIu64 " lost\n", stats.packets,
             stats.events, stats.lost);
  }
  uint32_t status = 1;
  fluxline_run_stop(run);
  if (fluxline_run_wait(run, &status) != FLUXLINE_CODE_DONE)
    fprintf(stderr, "%s\n", fluxline_error());
  else
    printf("%s\ndata in %s\n", fluxline_run_headline(run), fluxline_run_folder(run));
  fluxline_run_close(run);
  return (int)status;
}
