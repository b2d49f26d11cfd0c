#!/usr/bin/env bash
# Measures the sink beside Kafka's own kafka-producer-perf-test, in turns on one broker: records of
# 64 KiB, acks=all. Arguments: megabytes per turn (2000), number of turns (3).
set -euo pipefail
cd "$(dirname "$0")/../.."
megabytes="${1:-2000}" turns="${2:-3}"
cargo build --release --locked -q -p fluxline-kafka --features client --example sink_speed
folder="$(mktemp -d)"
trap 'tools/kafka/broker.sh stop "$folder"; rm -rf "$folder"' EXIT
address="$(tools/kafka/broker.sh start "$folder")"
for topic in speed.ours speed.theirs; do
  # Only the newest data stays, so that the disk does not fill.
  tools/kafka/broker.sh tool topics --bootstrap-server "$address" --create --topic "$topic" \
    --partitions 1 --config retention.bytes=500000000 --config segment.bytes=250000000 >/dev/null
done
for _ in $(seq "$turns"); do
  printf 'kafka-producer-perf-test  '
  tools/kafka/broker.sh tool producer-perf-test --topic speed.theirs --record-size 65536 \
    --num-records $((megabytes * 1000000 / 65536)) --throughput -1 \
    --producer-props bootstrap.servers="$address" acks=all batch.size=1000000 linger.ms=5 \
    buffer.memory=67108864 2>/dev/null | tail -1
  printf 'sink, packets of 1000 B   '
  target/release/examples/sink_speed "$address" speed.ours "$megabytes" 1000 65536
  printf 'sink, packets of 8000 B   '
  target/release/examples/sink_speed "$address" speed.ours "$megabytes" 8000 65536
done
printf 'kafka-consumer-perf-test  '
tools/kafka/broker.sh tool consumer-perf-test --bootstrap-server "$address" --topic speed.ours \
  --messages 4000 --timeout 20000 2>/dev/null | tail -1
