# bash completion for kubectl-inspect-cgpu (under its own name; `kubectl inspect cgpu` asks
# kubectl_complete-inspect-cgpu)

_kubectl_inspect_cgpu()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}

	case $prev in
	-o | --output) mapfile -t COMPREPLY < <(compgen -W "json wide" -- "$cur") ;;
	--kubeconfig | --certificate-authority | --client-certificate | --client-key)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		;;
	--cache-dir) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
	--context) mapfile -t COMPREPLY < <(compgen -W "$(kubectl config get-contexts -o name 2>/dev/null)" -- "$cur") ;;
	--cluster | --user | -s | --server | --token | --as | --as-group | --as-uid | --tls-server-name | --request-timeout)
		COMPREPLY=()
		;;
	*) mapfile -t COMPREPLY < <(kubectl_complete-inspect-cgpu "$cur" 2>/dev/null | grep -v '^:' | grep -F -- "$cur") ;;
	esac
}
complete -F _kubectl_inspect_cgpu kubectl-inspect-cgpu
