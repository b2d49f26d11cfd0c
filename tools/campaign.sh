#!/usr/bin/env bash
# Searches longer than a test may: storms, fuzzing, seeds, tests on a busy machine.
#
#   tools/campaign.sh NAME [--minutes N]     N is 10 by default
#
#   storms      builders, readouts and brokers of a cluster die at random (needs Java)
#   seeds       the random tests of all crates, each round from another seed
#   faults      fluxline sim campaign: nodes, cables, links and disks fail; SEEDS=100000 seeds from
#               SEED on; without SEED, it goes on behind the last thousand that passed
#   lives       random lives of boards against a join that knows everything
#   intervals   how often the simulator's confidence intervals contain the truth
#   loaded      the quick tests again and again beside four busy loops
#   fuzz        every fuzz target in turn (needs a nightly toolchain and cargo-fuzz)
#
# A failure ends the campaign and prints the seed, the commit and the command that repeats it.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '/^set/d'; exit 2; }
name="${1:-}" minutes=10
[ -n "$name" ] && shift || usage
while [ $# -gt 0 ]; do
  case "$1" in
  --minutes) minutes="${2:-}" && shift 2 ;;
  *) usage ;;
  esac
done
[[ "$minutes" =~ ^[1-9][0-9]*$ ]] || { echo "--minutes needs a whole number above 0"; exit 2; }

commit="$(git describe --always --dirty 2>/dev/null || echo unknown)"
end=$((SECONDS + 60 * minutes))
export FLUXLINE_PYTHON="${FLUXLINE_PYTHON:-$PWD/target/venv/bin/python}"

# Runs a command with the seed in SEED; on failure says how to repeat it.
attempt() {
  if ! "$@"; then
    echo "FAILED: campaign $name at commit $commit; again: SEED=$SEED $*"
    exit 1
  fi
}

# A seed for each round.
rounds() {
  local round=0
  while [ $SECONDS -lt $end ]; do
    round=$((round + 1))
    SEED="$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')"
    export SEED
    printf '\n== round %d, %d min left, SEED=%s\n' $round $(((end - SECONDS) / 60)) "$SEED"
    "$@"
  done
  echo "campaign $name at commit $commit: $round rounds passed"
}

busy=()
release() { [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true; }
trap release EXIT

case "$name" in
storms)
  tools/kafka/test.sh --prepare
  export SECONDS_OF_STORM=$((60 * minutes))
  SEED="$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')" && export SEED
  attempt tools/kafka/test.sh campaigns storm
  ;;
seeds)
  # Tests that take a seed read SEED; the others are the same each time.
  rounds attempt tools/run_tests.py \
    --only daq_tests,sim_tests,core_tests,links_tests,packet_tests,kafka_tests,hostile_tests,fluxline_daq,fluxline_sim,fluxline_core \
    -- --workspace --locked
  ;;
faults)
  cargo build --release --workspace --locked --bin fluxline-sim
  next=target/campaign-faults.next
  SEED="${SEED:-$(cat "$next" 2>/dev/null || echo 1)}"
  behind=$((SEED + ${SEEDS:-100000}))
  while [ "$SEED" -lt $behind ]; do
    count=$((behind - SEED < 1000 ? behind - SEED : 1000))
    printf '\n== seeds %d to %d\n' "$SEED" $((SEED + count - 1))
    for campaign in campaign campaign-builders; do
      attempt target/release/fluxline-sim sim campaign "examples/$campaign.toml" \
        --seed "$SEED" --seeds $count
    done
    SEED=$((SEED + count))
    echo "$SEED" > "$next"
  done
  ;;
lives)
  # 1,000 lives take about 6 s.
  lives() {
    FLUXLINE_RANDOM_FIRST=$SEED FLUXLINE_RANDOM_RUNS=5000 cargo test --workspace --locked --lib -- \
      --include-ignored --nocapture lives_of_boards_agree
  }
  rounds attempt lives
  ;;
intervals)
  export COUNT="${COUNT:-$((20 * minutes))}" SEED="${SEED:-1}"
  attempt cargo test --release --workspace --locked --test sim_campaigns -- --nocapture
  ;;
loaded)
  cargo test --workspace --locked --no-run
  for _ in 1 2 3 4; do
    (while :; do :; done) &
    busy+=($!)
  done
  failed=0 round=0
  # All rounds run: how often a test fails is the result.
  while [ $SECONDS -lt $end ]; do
    round=$((round + 1))
    printf '\n== round %d, %d min left\n' $round $(((end - SECONDS) / 60))
    tools/run_tests.py -- --workspace --locked || failed=$((failed + 1))
  done
  echo "campaign loaded at commit $commit: $failed of $round rounds failed"
  [ $failed -eq 0 ]
  ;;
fuzz)
  targets="$(find fuzz/fuzz_targets -name '*.rs' | wc -l)"
  SEED=0 && attempt fuzz/run.sh $((60 * minutes / targets + 1))
  ;;
*) usage ;;
esac
