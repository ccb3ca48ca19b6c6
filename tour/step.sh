# shellcheck shell=bash
# To be sourced, with `terminal` (yes or no) and `log`, the name of a file.

clear_line() { if [[ $terminal == yes ]]; then printf '\r\033[K'; fi; }

# Shows a command's headlines on the screen, and one line with the progress of cargo. The log has all of its output.
show() {
  local line compiled=0
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    case $line in
    *==*) clear_line && printf '%s\n' "$line" ;;
    *Compiling*)
      compiled=$((compiled + 1))
      line=${line##*Compiling }
      if [[ $terminal == yes ]]; then printf '\r\033[K%d crates compiled, now %s' "$compiled" "${line%% v[0-9]*}"; fi
      ;;
    esac
  done
  clear_line
  if ((compiled > 0)); then echo "$compiled crates compiled; the output is in $log."; fi
}

# step COMMAND...: runs it quietly. If it fails, the end of its output is shown, and nothing goes on.
step() {
  "$@" 2>&1 | show || {
    local status=$?
    tail -n 30 "$log" >&2
    echo "That failed. All of the output is in $log." >&2
    exit "$status"
  }
}
