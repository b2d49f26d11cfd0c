// The verilated core on a TAP device, in a capture file, or on nothing (for speed).
//   flx_sim [--tap NAME | --pcap FILE] [--blocks N] [--duty PERMILLE] [--stall PERMILLE]
//           [--stall-cycles N] [--lose PER_MILLION] [--flip PER_MILLION] [--from FILE]
//           [--until FILE] [--seed N] [--rate 1]
// Samples come when FROM exists; the core answers until UNTIL does.
// The first and the last blocks come slowly, without stalls and losses, for a
// receiver to see all. --flip changes a bit of a packet behind the core, for its check to fail.
// Prints the core's ledger and what this program did to the frames as one JSON document.
// --rate compares the cycles from frame to frame in the middle half of the run with those of a
// 10 GbE line (preamble, FCS and least gap: 24 bytes a frame); status 1: the line has pauses.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "Vflx_core.h"
#include "layout.h"
#include "verilated.h"

static const int register_port = 6007;
static uint64_t state = 1;
static uint32_t rnd() {  // xorshift64*
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return (state * 0x2545F4914F6CDD1DULL) >> 32;
}
static bool chance(uint32_t permille) { return rnd() % 1000 < permille; }

static int open_tap(const char *name) {
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0) {
        perror("flx_sim: TAP");
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv) {
    std::string tap, pcap, from, until;
    bool rate = false;
    uint64_t blocks = 1000;
    uint32_t duty = 900, stall = 0, stall_cycles = 50, lose = 0, flip = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string key = argv[i], value = argv[i + 1];
        if (key == "--tap") tap = value;
        else if (key == "--pcap") pcap = value;
        else if (key == "--from") from = value;
        else if (key == "--until") until = value;
        else {
            uint64_t n = strtoull(value.c_str(), nullptr, 10);
            if (key == "--blocks") blocks = n;
            else if (key == "--duty") duty = n;
            else if (key == "--stall") stall = n;
            else if (key == "--stall-cycles") stall_cycles = n;
            else if (key == "--lose") lose = n;
            else if (key == "--flip") flip = n;
            else if (key == "--rate") rate = n != 0;
            else if (key == "--seed") state = n * 2 + 1;
            else return fprintf(stderr, "flx_sim: %s?\n", key.c_str()), 2;
        }
    }
    int fd = tap.empty() ? -1 : open_tap(tap.c_str());
    FILE *file = pcap.empty() ? nullptr : fopen(pcap.c_str(), "wb");
    if (file) {  // nanosecond pcap, Ethernet
        uint32_t head[6] = {0xa1b23c4d, 0x00040002, 0, 0, 65535, 1};
        fwrite(head, 1, sizeof head, file);
    }

    VerilatedContext context;
    Vflx_core top{&context};
    top.rst = 1, top.clk = 0;
    for (int i = 0; i < 8; i++) top.clk = !top.clk, top.eval();
    top.rst = 0;

    std::vector<uint8_t> frame, rx;
    size_t rx_at = 0;
    uint64_t cycles = 0, written = 0, replies = 0, lost = 0, flipped = 0, refused = 0;
    uint64_t bytes = 0, received = 0;
    uint64_t words_left = blocks * block_words, word = 0;
    uint32_t stalled = 0;
    uint64_t last_end = 0, most_cycles = 0, frame_bytes = 0;
    uint8_t buffer[2048];
    auto begin = std::chrono::steady_clock::now();
    auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    double ended = -1;
    while (true) {
        // inputs of this cycle
        const uint64_t quiet = std::min<uint64_t>(blocks / 4, 8) * block_words;
        const bool calm = word < quiet || words_left <= quiet;
        if (!from.empty() && (cycles & 1023) == 0) {
            if (access(from.c_str(), F_OK) == 0) from.clear();
            else usleep(200);
        }
        top.s_valid = words_left && from.empty()
            && (calm ? chance(300) : duty >= 1000 || chance(duty));
        if (top.s_valid) {
            uint16_t sample = __builtin_bswap16(uint16_t(word));
            top.s_data = sample * 0x0001000100010001ULL;  // four samples with the word's number
            top.s_key = word / block_words, top.s_ticks = cycles;
        }
        if (stalled) stalled--;
        else if (stall && !calm && chance(stall)) stalled = 1 + rnd() % (2 * stall_cycles);
        top.tx_tready = !stalled;
        top.rx_tvalid = rx_at < rx.size();
        if (top.rx_tvalid) {
            size_t n = std::min<size_t>(8, rx.size() - rx_at);
            uint64_t data = 0;
            memcpy(&data, &rx[rx_at], n);
            top.rx_tdata = data, top.rx_tkeep = (1u << n) - 1;
            top.rx_tlast = rx_at + n == rx.size();
        }
        top.eval();
        // what the edge takes
        if (top.s_valid) words_left--, word++;
        if (top.rx_tvalid) rx_at += 8;
        if (top.tx_tvalid && top.tx_tready) {
            uint64_t data = top.tx_tdata;
            int n = __builtin_popcount(top.tx_tkeep);
            frame.insert(frame.end(), (uint8_t *)&data, (uint8_t *)&data + n);
            if (top.tx_tlast) {
                // UDP, and not from the port of the register window
                bool data_packet = frame.size() > 35 && frame[12] == 8 && frame[23] == 17
                    && (frame[34] << 8 | frame[35]) != register_port;
                if (data_packet && flip && !calm && rnd() % 1000000 < flip) {
                    frame[header_bytes + rnd() % (8 * block_words)] ^= 1 << rnd() % 8;
                    flipped++;
                } else if (data_packet && lose && !calm && rnd() % 1000000 < lose) {
                    lost++;
                    frame.clear();
                }
                if (frame.empty()) {}
                else if (fd >= 0) {
                    while (write(fd, frame.data(), frame.size()) < 0) {
                        if (errno != EAGAIN) { refused++; break; }
                    }
                    data_packet ? written++ : replies++;
                } else if (file) {
                    uint64_t ns = cycles * 32 / 5;
                    uint32_t head[4] = {uint32_t(ns / 1000000000), uint32_t(ns % 1000000000),
                                        uint32_t(frame.size()), uint32_t(frame.size())};
                    fwrite(head, 1, 16, file), fwrite(frame.data(), 1, frame.size(), file);
                    written++;
                } else written++;
                const uint64_t all = blocks * block_words;
                if (last_end && word > all / 4 && word < all / 4 * 3)
                    most_cycles = std::max(most_cycles, cycles - last_end);
                last_end = cycles, frame_bytes = frame.size();
                bytes += frame.size();
                frame.clear();
            }
        }
        top.clk = 1, top.eval();
        top.clk = 0;
        cycles++;
        if (fd >= 0 && (cycles & 255) == 0 && rx_at >= rx.size()) {
            ssize_t n = read(fd, buffer, sizeof buffer);
            if (n > 0) rx.assign(buffer, buffer + n), rx_at = 0, received++;
        }
        if (!words_left && !top.blocks_waiting && !top.tx_tvalid) {
            if (ended < 0) ended = seconds();
            // It answers until the file exists.
            if (until.empty()) break;
            if ((cycles & 1023) == 0) {
                if (access(until.c_str(), F_OK) == 0) break;
                usleep(200);
            }
        }
    }
    if (file) fclose(file);
    printf("{\"blocks_taken\": %lu, \"blocks_dropped\": %lu, \"blocks_waiting\": %u, "
           "\"packets_sent\": %lu,\n \"wire\": {\"written\": %lu, "
           "\"lost\": %lu, \"flipped\": %lu, \"replies\": %lu, \"refused\": %lu, "
           "\"received\": %lu, \"bytes\": %lu},\n \"cycles\": %lu, \"seconds\": %.3f, "
           "\"cycles_per_s\": %.0f, \"frames_per_s\": %.0f}\n",
           top.blocks_taken, top.blocks_dropped, top.blocks_waiting, top.packets_sent,
           written, lost, flipped, replies, refused, received,
           bytes, cycles, ended, cycles / seconds(), top.packets_sent / ended);
    if (!rate) return 0;
    if (!most_cycles) return fprintf(stderr, "flx_sim: too few blocks for a rate\n"), 1;
    const double line = (frame_bytes + 24) / 8.0;
    printf("frames of %lu bytes: %lu cycles each at most, the 10 GbE line takes %.2f: %.1f %%\n",
           frame_bytes, most_cycles, line, std::min(100.0, 100 * line / most_cycles));
    return most_cycles > line;
}
