# shellcheck shell=bash
# What a server's log shows of faults. Sourced by run.sh.

# findings LOG KILLED: prints the lines of a server's log that are faults; fails if there are none. What its last processes have said
# when it was killed on purpose is none: they see the end of their server and may panic before their own. A line of the file KILLED
# has the first byte of that, and the first one after it; cluster.sh writes it.
findings() {
  local log=$1 killed=$2
  [[ -e $killed ]] || killed=/dev/null
  LC_ALL=C awk -v killed="$killed" '
    FILENAME == killed { count++; from[count] = $1; to[count] = $2; next }
    { begin = end; end += length($0) + 1 }
    /terminated by signal| PANIC: |TRAP: / {
      for (i = 1; i <= count; i++) if (begin >= from[i] && begin < to[i]) next
      print FNR ":" $0
      found = 1
    }
    END { exit !found }' "$killed" "$log"
}
