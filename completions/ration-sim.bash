# bash completion for ration-sim

_ration_sim() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}

	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W 'up status fault set usage hold down --help --version' -- "$cur")
		return
	fi
	case $prev in
	--gpus-file)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--gpus)
		mapfile -t COMPREPLY < <(compgen -W '1x16384MiB 2x16160MiB 4x40960MiB 8x81559MiB' -- "$cur")
		return
		;;
	--driver-version)
		mapfile -t COMPREPLY < <(compgen -W '515.105.01' -- "$cur")
		return
		;;
	esac
	if [[ $cur == -* ]]; then
		local pace='--slice-us --latency-ns --jitter-percent --seed'
		case $command in
		up) mapfile -t COMPREPLY < <(compgen -W "--gpus --gpus-file --links --driver-version $pace" -- "$cur") ;;
		set) mapfile -t COMPREPLY < <(compgen -W "$pace" -- "$cur") ;;
		usage) mapfile -t COMPREPLY < <(compgen -W '--json --every' -- "$cur") ;;
		esac
	elif ((COMP_CWORD == 2)); then
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
	elif [[ $command == fault ]] && ((COMP_CWORD == 4)); then
		mapfile -t COMPREPLY < <(compgen -W 'xid lost ecc heal oom slow fail kill calm' -- "$cur")
	elif [[ $command == fault || $command == hold ]] && ((COMP_CWORD == 3)); then
		local cards
		cards=$(ration-sim status "${COMP_WORDS[2]}" 2>/dev/null | awk '/^[0-9]+ .*GPU-/ { print $1 }')
		mapfile -t COMPREPLY < <(compgen -W "$cards" -- "$cur")
	fi
}
complete -o filenames -F _ration_sim ration-sim
