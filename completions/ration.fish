# fish completion for ration

function __ration_namespace
    set -l words (commandline -opc)
    for i in (seq 2 (count $words))
        switch $words[$i]
            case -n --namespace
                test $i -lt (count $words); and echo --namespace=$words[(math $i + 1)]
            case '--namespace=*'
                echo $words[$i]
        end
    end
end

function __ration_names
    set -l kubectl kubectl
    set -q KUBECTL; and set kubectl $KUBECTL
    $kubectl get $argv -o name --request-timeout=3s 2>/dev/null | string replace -r '^[^/]*/' ''
end

function __ration_contexts
    set -l kubectl kubectl
    set -q KUBECTL; and set kubectl $KUBECTL
    $kubectl config get-contexts -o name 2>/dev/null
end

# The GPUs of the node that was named.
function __ration_gpus
    set -l kubectl kubectl
    set -q KUBECTL; and set kubectl $KUBECTL
    $kubectl get node (commandline -opc)[3] --request-timeout=3s -o 'jsonpath={.metadata.annotations.ration\.dev/gpus}' 2>/dev/null |
        string match -ar '"index":[0-9]+' | string replace '"index":' ''
end

# The program of `ration run`, or what the program itself completes.
function __ration_program
    set -l words (commandline -opc)
    set -l i 3
    while test $i -le (count $words)
        switch $words[$i]
            case --
                set i (math $i + 1)
                break
            case -m --mem -c --core --weight --policy -g --gpu --driver --layer
                set i (math $i + 2)
            case '-*'
                set i (math $i + 1)
            case '*'
                break
        end
    end
    set -l line (string join " " -- (string escape -- $words[$i..-1]) (commandline -ct))
    complete --do-complete="$line"
end

function __ration_words
    count (commandline -opc)
end

complete -c ration -f
complete -c ration -n 'test (__ration_words) = 1' -l version -d 'the version'
complete -c ration -n 'test (__ration_words) = 1' -s h -l help -d 'what the commands are'
for line in 'run:a program with so much of a GPU' 'ps:the programs that run so' 'top:what pods or programs use now' \
        'why:why a pod is on its GPU, or on none' 'set:another amount of GPU memory for a pod' \
        'cordon:no new pods on a GPU' 'uncordon:pods on that GPU again' 'inspect:who has how much of each GPU' \
        'doctor:what is wrong, and what mends it' 'history:what the scheduler has recorded' \
        'replay:a recorded history again' 'help:what the commands are'
    complete -c ration -n 'test (__ration_words) = 1' -a (string split -m 1 : $line)[1] -d (string split -m 1 : $line)[2]
end

set -l in __fish_seen_subcommand_from
complete -c ration -n "$in run ps top why set cordon uncordon doctor history replay" -s h -l help -d 'how it is used'

complete -c ration -n "$in run" -s m -l mem -x -a '25% 50% 1GiB 2GiB 4GiB 8GiB' -d 'memory of each GPU'
complete -c ration -n "$in run" -s c -l core -x -a '10 20 25 30 50 70' -d 'percent of computing power'
complete -c ration -n "$in run" -l weight -x -d '1 to 10000'
complete -c ration -n "$in run" -l policy -x -a '0 1 2 3 4 5' -d 'how the runs of a GPU divide it'
complete -c ration -n "$in run" -s g -l gpu -x -a '(nvidia-smi --query-gpu=index --format=csv,noheader 2>/dev/null)' -d 'index or UUID'
complete -c ration -n "$in run" -l driver -x -a '(__fish_complete_directories)' -d "folder of the driver's libraries"
complete -c ration -n "$in run" -l layer -x -a 'mount preload' -d 'how the limit reaches the program'
complete -c ration -n "$in run" -s v -l verbose -d 'say which GPU, how much of it, and how'
complete -c ration -n "$in run" -a '(__ration_program)'

complete -c ration -n "$in top why doctor" -s o -l output -x -a json -d 'for programs'
complete -c ration -n "$in top" -l runs -d 'programs of ration run'
complete -c ration -n "$in top" -l once -d 'one table'
complete -c ration -n "$in top" -a '(__ration_names nodes)'

complete -c ration -n "$in why set" -s n -l namespace -x -a '(__ration_names namespaces)' -d "the pod's"
complete -c ration -n "$in why set" -a '(__ration_names pods (__ration_namespace))'
complete -c ration -n "$in why" -l node -x -a '(__ration_names nodes)' -d 'explain this node'
complete -c ration -n "$in set" -l mem -x -d 'units of aliyun.com/gpu-mem'
complete -c ration -n "$in set" -s c -l container -x -d 'of which container'
complete -c ration -n "$in set cordon uncordon" -l timeout -x -d 'seconds'

complete -c ration -n "$in cordon uncordon; and test (__ration_words) = 2" -a '(__ration_names nodes)'
complete -c ration -n "$in cordon uncordon; and test (__ration_words) = 3" -a '(__ration_gpus)'
complete -c ration -n "$in cordon" -l reason -x -d 'for whoever asks why'

complete -c ration -n "$in doctor" -l node -d 'look at this machine'
complete -c ration -n "$in doctor" -l root -x -a '(__fish_complete_directories)' -d "where the node's / is"
complete -c ration -n "$in doctor" -l driver-root -x -a '(__fish_complete_directories)' -d "where the driver's files are"
complete -c ration -n "$in doctor" -l scheduler-config -d 'for the kube-scheduler of the cluster'
complete -c ration -n "$in doctor" -l kubeadm -d 'as a script'
complete -c ration -n "$in doctor" -l image -x -d 'of ration-scheduler'
complete -c ration -n "$in doctor" -l arg -x -d 'one more option of ration-scheduler'

complete -c ration -n "$in inspect" -a '(kubectl_complete-inspect-cgpu (commandline -ct) 2>/dev/null | string match -v ":*")'
complete -c ration -n "$in replay" -F

# What kubectl has.
set -l asks "$in top why set cordon uncordon doctor history"
complete -c ration -n $asks -l kubeconfig -r -F -d 'file'
complete -c ration -n $asks -l context -x -a '(__ration_contexts)'
for flag in cluster user server token as as-group as-uid tls-server-name request-timeout
    complete -c ration -n "$in why doctor" -l $flag -x
end
for flag in certificate-authority client-certificate client-key cache-dir
    complete -c ration -n "$in why doctor" -l $flag -r -F
end
complete -c ration -n "$in why doctor" -l insecure-skip-tls-verify
complete -c ration -n "$in top set cordon uncordon history" -l as -x
