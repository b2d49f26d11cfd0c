// Demonstrates: a filter of C between the builder and the files of a run. It keeps the events in
// which a sample exceeds a threshold, and every hundredth event.
//
//   filtered_run EXPERIMENT.toml THRESHOLD

#include "fluxline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Looks at the 16-bit samples in the payload of each packet.
static int32_t above(const FluxlineEvent *event, const FluxlinePacket *packets,
                     const uint8_t *bytes, void *context) {
  uint16_t threshold = *(const uint16_t *)context;
  for (uint32_t i = 0; i < event->packets; i++) {
    const uint8_t *payload = bytes + packets[i].start + packets[i].payload_start;
    for (uint32_t at = 0; at + 2 <= packets[i].payload_bytes; at += 2) {
      uint16_t sample;
      memcpy(&sample, payload + at, 2);
      if (sample > threshold)
        return 1;
    }
  }
  return event->key % 100 == 0;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: filtered_run EXPERIMENT.toml THRESHOLD\n");
    return 2;
  }
  uint16_t threshold = (uint16_t)atoi(argv[2]);
  FluxlineRun *run;
  if (fluxline_run_start_filtered(argv[1], above, &threshold, &run) != FLUXLINE_CODE_DONE) {
    fprintf(stderr, "%s\n", fluxline_error());
    return 2;
  }
  uint32_t status = 1;
  if (fluxline_run_wait(run, &status) != FLUXLINE_CODE_DONE)
    fprintf(stderr, "%s\n", fluxline_error());
  else
    printf("%s\n", fluxline_run_headline(run));
  fluxline_run_close(run);
  return (int)status;
}
