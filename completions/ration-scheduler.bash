# bash completion for ration-scheduler

_ration_scheduler()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}

	case $prev in
	--kubeconfig) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	--log-level) mapfile -t COMPREPLY < <(compgen -W "error warning info debug" -- "$cur") ;;
	--job-mixing) COMPREPLY=($(compgen -W "forbid allow" -- "$cur")) ;;
	--context | --listen | --probes | --metrics | --scheduler-lease | --best-nodes | --max-pods-per-gpu) COMPREPLY=() ;;
	*)
		mapfile -t COMPREPLY < <(compgen -W "--kubeconfig --context --listen --probes --metrics --scheduler-lease
			--best-nodes --max-pods-per-gpu --job-mixing --gang-timeout --gang-keep-after --webhook --webhook-listen --uninstall --log-level --help --version" -- "$cur")
		;;
	esac
}
complete -F _ration_scheduler ration-scheduler
