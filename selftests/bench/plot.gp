# SPDX-License-Identifier: GPL-2.0
#
# Plot one benchmark.  The script "plot" runs gnuplot with this file and the arguments
#
#	DATA OUTPUT TITLE UNIT

set terminal svg size 900,540 dynamic font "sans-serif,13" background "white"
set output ARG2
set title ARG3 noenhanced
set xlabel "timers"
set ylabel (ARG4 eq "each" ? "per timer" : ARG4) noenhanced
set logscale xy
set format x "10^{%L}"
set format y "%g"
set grid xtics ytics linecolor "#dddddd"
set key outside right noenhanced
set border 3
set tics nomirror
unset mxtics
unset mytics
set offsets graph 0.02, graph 0.02, 0, 0

# Eight colors that are distinct to color-blind readers; dashed lines for the next eight.
colors = "#0072b2 #d55e00 #009e73 #cc79a7 #e69f00 #56b4e9 #000000 #999999"
do for [i = 1:8] {
	set linetype i linecolor rgb word(colors, i) linewidth 2 pointtype i pointsize 0.6
	set linetype i + 8 linecolor rgb word(colors, i) linewidth 2 pointtype i + 8 \
		pointsize 0.6 dashtype 2
}

stats ARG1 using 1:2 nooutput
plot for [i = 0:STATS_blocks - 1] ARG1 index i using 1:2 with linespoints \
	linetype i + 1 title columnheader(1)
