# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Complete the arguments of "timerheap" in bash.  This function reads the names of commands and
# options from the help texts that the program prints.

_timerheap()
{
	local word=$2 previous=$3 words=

	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ]; then
		words="$("$1" help | sed -n 's/^  \([a-z]*\) .*/\1/p') help --help --version"
	elif [[ $previous == -c || $previous == --clock ]]; then
		words="monotonic realtime boottime tai"
	elif [[ $word == -* ]]; then
		words="$("$1" "${COMP_WORDS[1]}" --help | grep -oE -e '--[a-z]{2,}') --help"
	fi
	# Without a match, "-o default" below completes the name of a file.
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _timerheap timerheap
