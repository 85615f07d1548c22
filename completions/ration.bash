# bash completion for ration

_ration_namespace()
{
	local i

	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-n | --namespace) printf -- '--namespace=%s' "${COMP_WORDS[i + 1]}" ;;
		--namespace=*) printf '%s' "${COMP_WORDS[i]}" ;;
		esac
	done
}

_ration_names()
{
	mapfile -t COMPREPLY < <(compgen -W "$("${KUBECTL:-kubectl}" get "$@" -o name --request-timeout=3s 2>/dev/null |
		sed 's,^[^/]*/,,')" -- "$cur")
}

_ration_why()
{
	local namespace

	case $prev in
	-n | --namespace) _ration_names namespaces ;;
	--node) _ration_names nodes ;;
	-o | --output) mapfile -t COMPREPLY < <(compgen -W json -- "$cur") ;;
	*)
		namespace=$(_ration_namespace)
		case $cur in
		-*)
			mapfile -t COMPREPLY < <(compgen -W "-n --namespace --node -o --output -h --help --kubeconfig --context \
				--cluster --user --server --token --as --as-group --as-uid --certificate-authority \
				--client-certificate --client-key --tls-server-name --request-timeout --cache-dir \
				--insecure-skip-tls-verify" -- "$cur")
			;;
		*) _ration_names pods ${namespace:+"$namespace"} ;;
		esac
		;;
	esac
}

_ration_set()
{
	local namespace

	case $prev in
	-n | --namespace) _ration_names namespaces ;;
	--mem | --timeout | -c | --container) COMPREPLY=() ;;
	*)
		namespace=$(_ration_namespace)
		case $cur in
		-*) mapfile -t COMPREPLY < <(compgen -W "--mem -c --container -n --namespace --timeout -h --help --kubeconfig \
			--context --as" -- "$cur") ;;
		*) _ration_names pods ${namespace:+"$namespace"} ;;
		esac
		;;
	esac
}

_ration_cordon()
{
	case $prev in
	--reason | --timeout) COMPREPLY=() ;;
	cordon | uncordon) _ration_names nodes ;;
	*)
		case $cur in
		-*)
			mapfile -t COMPREPLY < <(compgen -W "$([ "${COMP_WORDS[1]}" = uncordon ] || echo --reason) --timeout -h --help \
				--kubeconfig --context --as" -- "$cur")
			;;
		*)
			mapfile -t COMPREPLY < <(compgen -W "$("${KUBECTL:-kubectl}" get node "${COMP_WORDS[2]}" --request-timeout=3s \
				-o 'jsonpath={.metadata.annotations.ration\.dev/gpus}' 2>/dev/null |
				grep -o '"index":[0-9]*' | grep -o '[0-9]*$')" -- "$cur")
			;;
		esac
		;;
	esac
}

# Of `ration run`: its options, then the program's own completion.
_ration_run()
{
	local i

	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-m | --mem | -c | --core | --weight | --policy | -g | --gpu | --driver | --layer) ((i++)) ;;
		-v | --verbose | --*=*) ;;
		*)
			[ "${COMP_WORDS[i]}" != -- ] || ((i++))
			declare -F _command_offset >/dev/null && _command_offset "$i"
			return
			;;
		esac
	done
	case $prev in
	-m | --mem) mapfile -t COMPREPLY < <(compgen -W "25% 50% 1GiB 2GiB 4GiB 8GiB" -- "$cur") ;;
	-c | --core) mapfile -t COMPREPLY < <(compgen -W "10 20 25 30 50 70" -- "$cur") ;;
	--policy) mapfile -t COMPREPLY < <(compgen -W "0 1 2 3 4 5" -- "$cur") ;;
	--weight) COMPREPLY=() ;;
	-g | --gpu)
		mapfile -t COMPREPLY < <(compgen -W "$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null)" -- "$cur")
		;;
	--driver) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
	--layer) mapfile -t COMPREPLY < <(compgen -W "mount preload" -- "$cur") ;;
	*)
		case $cur in
		-*) mapfile -t COMPREPLY < <(compgen -W "-m --mem -c --core --weight --policy -g --gpu --driver --layer -v --verbose -h --help --" -- "$cur") ;;
		*) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
		esac
		;;
	esac
}

_ration()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}

	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "run ps top why set cordon uncordon inspect doctor history replay help --help --version" -- "$cur")
		return
	fi
	case $prev in
	--kubeconfig | --certificate-authority | --client-certificate | --client-key)
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		return
		;;
	--context)
		mapfile -t COMPREPLY < <(compgen -W "$("${KUBECTL:-kubectl}" config get-contexts -o name 2>/dev/null)" -- "$cur")
		return
		;;
	esac
	case ${COMP_WORDS[1]} in
	run) _ration_run ;;
	ps) mapfile -t COMPREPLY < <(compgen -W "-h --help" -- "$cur") ;;
	top)
		case $prev in
		-o | --output) mapfile -t COMPREPLY < <(compgen -W json -- "$cur") ;;
		*)
			case $cur in
			-*) mapfile -t COMPREPLY < <(compgen -W "--runs --once -o --output -h --help --kubeconfig --context --as" -- "$cur") ;;
			*) _ration_names nodes ;;
			esac
			;;
		esac
		;;
	why) _ration_why ;;
	set) _ration_set ;;
	cordon | uncordon) _ration_cordon ;;
	doctor)
		case $prev in
		-o | --output) mapfile -t COMPREPLY < <(compgen -W json -- "$cur") ;;
		--root | --driver-root) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
		--image | --arg) COMPREPLY=() ;;
		*) mapfile -t COMPREPLY < <(compgen -W "-o --output --node --root --driver-root --scheduler-config --kubeadm --image --arg -h --help --kubeconfig \
			--context --as" -- "$cur") ;;
		esac
		;;
	history)
		mapfile -t COMPREPLY < <(compgen -W "--kubeconfig --context --as -h --help" -- "$cur")
		;;
	replay) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	inspect)
		mapfile -t COMPREPLY < <(kubectl_complete-inspect-cgpu "$cur" 2>/dev/null | grep -v '^:' | grep -F -- "$cur")
		;;
	esac
}
complete -F _ration ration
