#!/bin/bash
# Compares our routes with those of OpenSM on the same wirings, and checks OpenSM's tables for
# cycles of channels. ibsim simulates the network for OpenSM. Ends with status 1 if a claim of
# docs/simulation/routes.md fails, and with 2 if a program is missing or fails.
# Needs the Debian packages opensm, ibsim-utils and infiniband-diags. Takes some minutes.
# Run: tools/opensm/compare.sh [NAME...]; names as `compare list` prints them, all without.
set -u
cd "$(dirname "$0")/../.."
for program in opensm ibsim saquery; do
    PATH=$PATH:/usr/sbin command -v $program >/dev/null || {
        echo "$program is missing; install opensm, ibsim-utils and infiniband-diags" >&2
        exit 2
    }
done
library=$(echo /usr/lib/*/umad2sim/libumad2sim.so)
cargo build --quiet -p fluxline-sim --example opensm || exit 2
compare=${CARGO_TARGET_DIR:-$PWD/target}/debug/examples/opensm

folder=$(mktemp -d)
started=()
stop() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null; done
    wait 2>/dev/null
    started=()
}
trap 'stop; echo kept $folder' EXIT
trap 'exit 2' INT TERM
"$compare" write "$folder" || exit 2
cd "$folder" || exit 2

# Waits until the file $1 has the text $2, at most 60 s.
wait_for() {
    for _ in $(seq 20); do
        grep -q "$2" "$1" 2>/dev/null && return
        sleep 0.2
    done
    echo "$1 never said: $2" >&2
    exit 2
}

# Runs a program of the simulated network as host $1, for at most $2 seconds.
at_host() {
    SIM_HOST=$1 LD_PRELOAD=$library timeout "$2" "${@:3}"
}

# Lets OpenSM route the wiring $1 by the engine $2, and keeps its tables as $1.$3.tables. Without a
# root, its up*/down* fails on symmetrical wirings; then there are no tables. Further arguments are
# for OpenSM.
route() {
    export IBSIM_SOCKNAME=fluxline-$$-$1-$3
    export OSM_TMP_DIR=$folder/$1.$3 OSM_CACHE_DIR=$folder/$1.$3
    mkdir -p "$OSM_TMP_DIR"
    timeout 600 ibsim -s -n -N 256 -S 256 -P 4096 "$1.net" >"$1.$3/ibsim.log" 2>&1 &
    started+=($!)
    wait_for "$1.$3/ibsim.log" MaxMcastCap
    at_host H0 600 /usr/sbin/opensm -R "$2,no_fallback" -Q --nue_max_num_vls 1 -D 0x43 \
        -f "$folder/$1.$3/log" --dump_files_dir "$OSM_TMP_DIR" "${@:4}" >/dev/null 2>&1 &
    started+=($!)
    wait_for "$1.$3/log" "SUBNET UP\|No routing engine able"
    if grep -q "$2 tables configured on all switches" "$1.$3/log"; then
        cp "$1.$3/opensm-lfts.dump" "$1.$3.tables" || exit 2
        [ "$3" = lash ] && layers "$1"
    fi
    stop
}

# Asks for the service level, which is the virtual layer, of each pair of hosts.
layers() {
    sed -n "s/^\(0x[0-9a-f]*\) .*: 'H\([0-9]*\)'/\2 \1/p" "$1.lash.tables" | sort -u >lids
    while read -r source slid; do
        while read -r target dlid; do
            [ "$source" = "$target" ] && continue
            answer=$(at_host H1 20 saquery PR --slid $((slid)) --dlid $((dlid)))
            echo "$source $target $(sed -n 's/^\t*sl\.*//p' <<<"$answer")"
        done <lids
    done <lids >"$1.layers"
}

names=("$@")
[ ${#names[@]} = 0 ] && mapfile -t names < <("$compare" list)
for name in "${names[@]}"; do
    [ -f "$name.net" ] || { echo "no wiring $name; see $compare list" >&2; exit 2; }
    route "$name" updn updn --root_guid_file "$name.root"
    route "$name" updn free
    route "$name" lash lash
    route "$name" nue nue
done
"$compare" judge "$folder" "${names[@]}"
