#compdef ration

_ration_names() {
	local -a names
	names=(${${(f)"$(${KUBECTL:-kubectl} get "$@" -o name --request-timeout=3s 2>/dev/null)"}#*/})
	compadd -a names
}

_ration_pods() {
	local -a namespace
	local given=${opt_args[-n]:-${opt_args[--namespace]}}
	[[ -z $given ]] || namespace=(--namespace=$given)
	_ration_names pods $namespace
}

_ration_contexts() {
	compadd -- ${(f)"$(${KUBECTL:-kubectl} config get-contexts -o name 2>/dev/null)"}
}

# The GPUs of the node that was named.
_ration_gpus() {
	compadd -- $(${KUBECTL:-kubectl} get node $line[1] --request-timeout=3s -o 'jsonpath={.metadata.annotations.ration\.dev/gpus}' \
		2>/dev/null | grep -o '"index":[0-9]*' | grep -o '[0-9]*$')
}

_ration_cards() {
	compadd -- ${(f)"$(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null)"}
}

_ration() {
	local -a help few flags verbs
	local curcontext=$curcontext state line
	typeset -A opt_args
	help=('(-h --help)'{-h,--help}'[how it is used]')
	few=($help '--kubeconfig=[file]:file:_files' '--context=:context:_ration_contexts' '--as=:user: ')
	flags=($few --{cluster,user,server,token,as-group,as-uid,tls-server-name,request-timeout}'=:value: '
		--{certificate-authority,client-certificate,client-key}'=:file:_files' '--cache-dir=:folder:_files -/'
		'--insecure-skip-tls-verify')
	verbs=(
		'run:a program with so much of a GPU' 'ps:the programs that run so' 'top:what pods or programs use now'
		'why:why a pod is on its GPU, or on none' 'set:another amount of GPU memory for a pod'
		'cordon:no new pods on a GPU' 'uncordon:pods on that GPU again' 'inspect:who has how much of each GPU'
		'doctor:what is wrong, and what mends it' 'history:what the scheduler has recorded'
		'replay:a recorded history again' 'help:what the commands are')
	_arguments -C '(- *)--version[the version]' '(- *)--help[what the commands are]' '1: :->command' '*:: :->arguments' && return
	if [[ $state = command ]]; then
		_describe command verbs
		return
	fi
	case $words[1] in
	run)
		_arguments -S $help '(-m --mem)'{-m+,--mem=}'[memory of each GPU]:amount:(25% 50% 1GiB 2GiB 4GiB 8GiB)' \
			'(-c --core)'{-c+,--core=}'[percent of computing power]:percent:(10 20 25 30 50 70)' \
			'--weight=[1 to 10000]:weight: ' '--policy=[how the runs of a GPU divide it]:policy:(0 1 2 3 4 5)' \
			'(-g --gpu)'{-g+,--gpu=}'[index or UUID]:GPU:_ration_cards' \
			"--driver=[folder of the driver's libraries]:folder:_files -/" \
			'--layer=[how the limit reaches the program]:layer:(mount preload)' \
			'(-v --verbose)'{-v,--verbose}'[say which GPU, how much of it, and how]' '(-)1:program: _command_names -e' '*::argument: _normal'
		;;
	ps) _arguments $help ;;
	top)
		_arguments $few '--runs[programs of ration run]' '--once[one table]' '(-o --output)'{-o+,--output=}':format:(json)' \
			'*:node: _ration_names nodes'
		;;
	why)
		_arguments $flags '(-n --namespace)'{-n+,--namespace=}"[the pod's]:namespace: _ration_names namespaces" \
			'--node=[explain this node]:node: _ration_names nodes' '(-o --output)'{-o+,--output=}':format:(json)' '1:pod:_ration_pods'
		;;
	set)
		_arguments $few '--mem=[units of aliyun.com/gpu-mem]:units: ' '(-c --container)'{-c+,--container=}'[of which]:container: ' \
			'(-n --namespace)'{-n+,--namespace=}"[the pod's]:namespace: _ration_names namespaces" \
			'--timeout=:seconds: ' '1:pod:_ration_pods'
		;;
	cordon | uncordon)
		[[ $words[1] = uncordon ]] || few+=('--reason=[for whoever asks why]:reason: ')
		_arguments $few '--timeout=:seconds: ' '1:node: _ration_names nodes' '2:GPU:_ration_gpus'
		;;
	doctor)
		_arguments $flags '(-o --output)'{-o+,--output=}':format:(json)' '--node[look at this machine]' \
			"--root=[where the node's / is]:folder:_files -/" "--driver-root=[where the driver's files are]:folder:_files -/" \
			'--scheduler-config[for the kube-scheduler of the cluster]' '--kubeadm[as a script]' '--image=[of ration-scheduler]:image: ' \
			'--arg=[one more option of ration-scheduler]:option: '
		;;
	history) _arguments $few ;;
	inspect) compadd -- ${(f)"$(kubectl_complete-inspect-cgpu $words[CURRENT] 2>/dev/null | grep -v '^:')"} ;;
	replay) _arguments $help '1:file:_files' ;;
	esac
}

_ration "$@"
