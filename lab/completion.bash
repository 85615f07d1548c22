# bash completion for lab/lab: source lab/completion.bash
_ration_lab()
{
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command="" word
	local program=${COMP_WORDS[0]} name=()
	local commands="up down status logs env kubectl ctr enter restart reboot add-node remove-node build"
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		[[ $word == --name ]] && name=(--name "${COMP_WORDS[i + 1]}")
		[[ -z $command && " $commands " == *" $word "* ]] && command=$word
	done
	case $previous in
	--name)
		COMPREPLY=($(compgen -W "$(ls "${RATION_LABS:-${XDG_STATE_HOME:-$HOME/.local/state}/ration/labs}" 2>/dev/null)" -- "$current"))
		return
		;;
	--cgroup-driver)
		COMPREPLY=($(compgen -W "cgroupfs systemd" -- "$current"))
		return
		;;
	--runtime)
		COMPREPLY=($(compgen -W "containerd cri-o" -- "$current"))
		return
		;;
	--node | --kubernetes | --feature-gates | -n | --lines) return ;;
	esac
	case $command in
	"") COMPREPLY=($(compgen -W "$commands --help" -- "$current")) ;;
	up) COMPREPLY=($(compgen -W "--name --node --no-charts --default-scheduler --cgroup-driver --runtime --kubernetes --feature-gates --help" -- "$current")) ;;
	logs | restart)
		if [[ $current == -* ]]; then
			COMPREPLY=($(compgen -W "--name --help $([[ $command == restart ]] && echo --kill)" -- "$current"))
		else
			COMPREPLY=($(compgen -W "$("$program" logs "${name[@]}" 2>/dev/null)" -- "$current"))
		fi
		;;
	ctr | enter | reboot | remove-node) COMPREPLY=($(compgen -W "--name --help $([[ $command == remove-node ]] && echo --drain) $("$program" logs "${name[@]}" 2>/dev/null | sed -n 's/^init@//p')" -- "$current")) ;;
	build) COMPREPLY=($(compgen -W "--runtime --kubernetes --help" -- "$current")) ;;
	*) COMPREPLY=($(compgen -W "--name --help" -- "$current")) ;;
	esac
}
complete -F _ration_lab lab/lab ./lab/lab
