#!/bin/sh
# A SIMULATED nvidia-smi: it answers for the simulated GPUs of its container and for nothing else.
# POSIX sh and next to nothing else, so that it runs in every image. Tests execute it with sh.
set -f # a field is a word, never a file pattern
product='@PRODUCT@'
driver='@DRIVER@'
memory='@MEMORY@'
switch="${RAYFLIGHT_SIMULATED_GPU_SWITCH:-@SWITCH@}"
table='@DEVICES@' # UUID, index on its Kubernetes node, PCI address

fail() {
	echo "$2" >&2
	exit "$1"
}

# The container's devices: from the environment, or, where a caller cleared it, from the container's first process.
visible() {
	if [ -n "${NVIDIA_VISIBLE_DEVICES+x}" ] || ! [ -r "${RAYFLIGHT_PROC_ENVIRON:-/proc/1/environ}" ]; then
		echo "${NVIDIA_VISIBLE_DEVICES-}"
		return
	fi
	tr '\000' '\n' <"${RAYFLIGHT_PROC_ENVIRON:-/proc/1/environ}" | while read -r line; do
		case "$line" in NVIDIA_VISIBLE_DEVICES=*) echo "${line#*=}" ;; esac
	done
}

# Prints "INDEX UUID NODE_INDEX BUS" for each device of this container that -i did not leave out.
devices() {
	position=0
	for uuid in $(IFS=,; echo $1); do
		echo "$table" | while read -r known node_index bus; do
			[ "$known" = "$uuid" ] || continue
			case ",$selected," in
			,,) ;;
			*",$position,"* | *",$uuid,"* | *",$bus,"*) ;;
			*) continue ;;
			esac
			echo "$position $uuid $node_index $bus"
		done
		position=$((position + 1))
	done
}

# What a GPU says instead of the truth: lines of FIELD=VALUE in the switch's file of a sick one, or below told/.
override() { # field, UUID, index on the node
	for file in "$switch/$2" "$switch/$3" "$switch/told/$2"; do
		[ -f "$file" ] || continue
		while IFS='=' read -r name value || [ -n "$name" ]; do
			if [ "$name" = "$1" ]; then
				echo "$value"
				return 0
			fi
		done <"$file"
	done
	return 1
}

unit() {
	case "$1" in
	memory.*) echo MiB ;;
	utilization.*) echo % ;;
	power.*) echo W ;;
	clocks.*) echo MHz ;;
	esac
}

value() { # field, index, UUID, index on the node, bus
	override "$1" "$3" "$4" && return
	case "$1" in
	index) echo "$2" ;;
	uuid | gpu_uuid) echo "$3" ;;
	name | gpu_name) echo "$product" ;;
	pci.bus_id | gpu_bus_id) echo "$5" ;;
	serial | gpu_serial) echo "SIMULATED-$4" ;;
	count) echo "$count" ;;
	driver_version) echo "$driver" ;;
	memory.total | memory.free) echo "$memory" ;;
	memory.used | memory.reserved | utilization.gpu | utilization.memory) echo 0 ;;
	temperature.gpu | temperature.memory) echo 35 ;;
	ecc.mode.current | persistence_mode) echo Enabled ;;
	ecc.errors.*.total | retired_pages.*.count) echo 0 ;;
	mig.mode.current | mig.mode.pending | display_active | display_mode) echo Disabled ;;
	retired_pages.pending | remapped_rows.pending | remapped_rows.failure) echo No ;;
	remapped_rows.correctable | remapped_rows.uncorrectable) echo 0 ;;
	compute_mode) echo Default ;;
	compute_cap) echo 8.0 ;;
	pstate) echo P0 ;;
	power.draw) echo 50.00 ;;
	power.limit) echo 400.00 ;;
	clocks.sm | clocks.gr | clocks.current.sm) echo 1410 ;;
	clocks.mem | clocks.max.memory) echo 1215 ;;
	clocks.max.sm) echo 1410 ;;
	clocks_throttle_reasons.active | clocks_event_reasons.active) echo 0x0000000000000000 ;;
	timestamp) echo simulated ;;
	*) return 1 ;;
	esac
}

query() { # fields
	fields=$(IFS=,; echo $1)
	for field in $fields; do
		value "$field" 0 none none none >/dev/null || fail 2 "Field \"$field\" is not a valid field to query."
	done
	case ",$format," in
	*,csv,*) ;;
	*) fail 2 '"--format=" switch is missing. Please specify the output format.' ;;
	esac
	case ",$format," in
	*,noheader,*) ;;
	*)
		line=
		for field in $fields; do
			with=$(unit "$field")
			line="$line, $field${with:+ [$with]}"
		done
		echo "${line#, }"
		;;
	esac
	echo "$found" | while read -r index uuid node_index bus; do
		[ -n "$uuid" ] || continue
		line=
		for field in $fields; do
			with=$(unit "$field")
			case ",$format," in *,nounits,*) with= ;; esac
			line="$line, $(value "$field" "$index" "$uuid" "$node_index" "$bus")${with:+ $with}"
		done
		echo "${line#, }"
	done
}

list() {
	echo "$found" | while read -r index uuid node_index bus; do
		[ -n "$uuid" ] || continue
		name=$(value name "$index" "$uuid" "$node_index" "$bus")
		echo "GPU $index: $name (UUID: $(value uuid "$index" "$uuid" "$node_index" "$bus"))"
	done
}

overview() {
	rule='+------------------------------------------------------------------------------+'
	echo "$rule"
	printf '| %-76s |\n' "NVIDIA-SMI SIMULATED        Driver Version: $driver"
	printf '| %-76s |\n' 'No such device exists on this machine: these GPUs are simulated.'
	echo "$rule"
	echo "$found" | while read -r index uuid node_index bus; do
		printf '| %-76s |\n' "$index  $product  $bus" \
			"   $uuid" \
			"   0MiB / ${memory}MiB   $(value temperature.gpu "$index" "$uuid" "$node_index" "$bus")C   0%   \
ECC uncorrected: $(value ecc.errors.uncorrected.volatile.total "$index" "$uuid" "$node_index" "$bus")"
	done
	echo "$rule"
	printf '| %-76s |\n' 'No running processes found'
	echo "$rule"
}

action=overview format='' selected='' wanted=''
while [ $# -gt 0 ]; do
	option="$1"
	case "$option" in
	--*=*)
		argument="${option#*=}"
		option="${option%%=*}"
		;;
	--query-* | --format | --id | -i)
		shift
		[ $# -gt 0 ] || fail 2 "$option needs a value"
		argument="$1"
		;;
	esac
	case "$option" in
	-L | --list-gpus) action=list ;;
	--query-gpu) action=query wanted="$argument" ;;
	--query-compute-apps | --query-accounted-apps) action=apps wanted="$argument" ;;
	--format) format=$(IFS=,; set -- $argument; IFS=' '; for part in "$@"; do printf '%s,' ${part}; done) ;;
	-i | --id) selected="$argument" ;;
	-h | --help) action=help ;;
	*) fail 2 "The simulated nvidia-smi does not know $option: -L, --query-gpu=..., --format=csv[,noheader][,nounits], -i" ;;
	esac
	shift
done

found=$(devices "$(visible)")
count=$(echo "$found" | while read -r line; do [ -z "$line" ] || printf x; done)
count=${#count}
[ "$action" = help ] && { echo "SIMULATED nvidia-smi: -L, --query-gpu=FIELDS --format=csv[,noheader][,nounits], -i ID"; exit 0; }
[ "$count" -gt 0 ] || fail 6 'No devices were found'
case "$action" in
apps) case ",$format," in *,noheader,*) ;; *) echo "$wanted" ;; esac ;;
query) query "$wanted" ;;
*) "$action" ;;
esac
