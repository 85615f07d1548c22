# bash completion for ration-agent

_ration_agent()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}

	case $prev in
	--policy) mapfile -t COMPREPLY < <(compgen -W "0 1 2 3 4 5" -- "$cur") ;;
	--unit) mapfile -t COMPREPLY < <(compgen -W "1GiB 512MiB 256MiB 128MiB" -- "$cur") ;;
	--on-bypass) mapfile -t COMPREPLY < <(compgen -W "report evict" -- "$cur") ;;
	--unknown-functions) mapfile -t COMPREPLY < <(compgen -W "serve refuse" -- "$cur") ;;
	--log-level) mapfile -t COMPREPLY < <(compgen -W "error warning info debug" -- "$cur") ;;
	--driver-root | --host-driver-root | --plugin-dir | --cdi-dir | --state-dir | --shim-dir | --proc)
		mapfile -t COMPREPLY < <(compgen -d -- "$cur")
		;;
	--pod-resources-socket | --cri-socket | --checkpoint | --kubeconfig)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		;;
	--node-name | --metrics | --probes) COMPREPLY=() ;;
	*)
		mapfile -t COMPREPLY < <(compgen -W "--node-name --driver-root --host-driver-root --plugin-dir
			--pod-resources-socket --cri-socket --cdi-dir --checkpoint --state-dir --shim-dir --allow-disable --no-fault-lists --kubeconfig --metrics --probes --on-bypass --unknown-functions --proc --policy --unit --uninstall --log-level
			--version --help" -- "$cur")
		;;
	esac
}
complete -F _ration_agent ration-agent
