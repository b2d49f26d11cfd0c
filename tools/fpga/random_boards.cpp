// The verilated core with blocks from a file, random pauses of the samples and of the link.
//   random_sim BLOCKS_FILE BLOCK_WORDS DUTY_PERMILLE STALL_PERMILLE SEED
// The file has key, ticks and samples of each block, 64-bit little-endian. Prints a line for each
// dropped block and each frame, then the ledger. Status 1: the core broke the rules of its stream,
// or did not come to rest.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "Vflx_core.h"
#include "verilated.h"

static uint64_t state = 1;
static uint64_t rnd() {  // xorshift64*
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545F4914F6CDD1DULL;
}
static bool chance(uint64_t permille) { return (rnd() >> 32) % 1000 < permille; }

static int fail(const char *reason) {
    printf("error %s\n", reason);
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 6) return fail("arguments");
    FILE *file = fopen(argv[1], "rb");
    if (!file) return fail("no blocks");
    const uint64_t words = strtoull(argv[2], nullptr, 10);
    const uint64_t duty = strtoull(argv[3], nullptr, 10), stall = strtoull(argv[4], nullptr, 10);
    state = 2 * strtoull(argv[5], nullptr, 10) + 1;
    std::vector<uint64_t> input;
    for (uint64_t word; fread(&word, sizeof word, 1, file) == 1;) input.push_back(word);
    const uint64_t blocks = input.size() / (words + 2);

    VerilatedContext context;
    context.randReset(2), context.randSeed(int(state & 0x7fffffff));
    Vflx_core top{&context};
    top.rx_tvalid = 0, top.tx_tready = 0, top.s_valid = 0, top.rst = 1;
    uint64_t block = 0, word = 0, idle = 0, dropped = 0;
    std::vector<uint8_t> frame;
    const uint64_t most = 100000 + blocks * (words + 200) * 100;
    for (uint64_t cycle = 0; idle < 300; cycle++) {
        if (cycle == most) return fail("the core did not come to rest");
        top.rst = cycle < 4;
        top.s_valid = !top.rst && block < blocks && chance(duty);
        // Key and time are right with the first word only.
        const uint64_t *in = input.data() + block * (words + 2);
        top.s_key = top.s_valid && word == 0 ? in[0] : rnd();
        top.s_ticks = top.s_valid && word == 0 ? in[1] : rnd();
        top.s_data = top.s_valid ? in[2 + word] : rnd();
        top.tx_tready = !chance(stall);
        top.clk = 0, top.eval();
        if (!top.rst && top.tx_tvalid && top.tx_tready) {
            if (!top.tx_tlast && top.tx_tkeep != 0xff) return fail("a gap in a frame");
            for (int at = 0; at < 8; at++)
                if (top.tx_tkeep >> at & 1) frame.push_back(uint8_t(top.tx_tdata >> 8 * at));
            if (top.tx_tlast) {
                printf("frame ");
                for (uint8_t byte : frame) printf("%02x", byte);
                printf("\n"), frame.clear();
            }
        } else if (!top.rst && !top.tx_tvalid && !frame.empty()) {
            return fail("a pause in a frame");
        }
        const bool quiet = block == blocks && !top.tx_tvalid && top.blocks_waiting == 0;
        idle = quiet && !top.rst ? idle + 1 : 0;
        const bool offered = top.s_valid;
        top.clk = 1, top.eval();
        if (!offered) continue;
        if (top.blocks_dropped != dropped) printf("dropped %llu\n", (unsigned long long)block);
        dropped = top.blocks_dropped;
        if (++word == words) word = 0, block++;
    }
    printf("ledger %llu %llu %llu\n", (unsigned long long)top.blocks_taken,
           (unsigned long long)top.blocks_dropped, (unsigned long long)top.packets_sent);
    return 0;
}
