# what the lab trains: says where, in which environment and with which words it runs
printf '%s\n' "folder ${PWD##*/}" "environment ${LAB_ENV:-none}" "words $*" "nccl $NCCL_P2P_DISABLE"
