// SPDX-License-Identifier: GPL-2.0

package timerheap

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Compare abi.go with the record selftests/abi/header, a text file that lists the constants and
// structures of <linux/timerheap.h>.  selftests/abi/check compares the record with the header.

const recordPath = "../../selftests/abi/header"

var goConstants = map[string]uint64{
	"TIMERHEAP_LAYOUT":      abiLayout,
	"TIMERHEAP_NEVER":       abiNever,
	"TIMERHEAP_CHECKING":    abiChecking,
	"TIMERHEAP_EXPIRATIONS": abiExpirations,
	"TIMERHEAP_READING":     abiReading,
	"TIMERHEAP_DISCARDED":   abiDiscarded,
	"TIMERHEAP_IOC_SETUP":   iocSetup,
	"TIMERHEAP_IOC_KICK":    iocKick,
	"TIMERHEAP_IOC_GROW":    iocGrow,
}

var goStructures = map[string]reflect.Type{
	"timerheap_slot":  reflect.TypeOf(slot{}),
	"timerheap_ring":  reflect.TypeOf(ring{}),
	"timerheap_setup": reflect.TypeOf(setupCall{}),
	"timerheap_grow":  reflect.TypeOf(growCall{}),
	"timerheap_kick":  reflect.TypeOf(kickCall{}),
}

// goName returns the name that a field of the header has in abi.go: slotStride for slot_stride.
func goName(name string) string {
	words := strings.Split(name, "_")
	for i := range words[1:] {
		words[i+1] = strings.ToUpper(words[i+1][:1]) + words[i+1][1:]
	}
	return strings.Join(words, "")
}

// compareRecord returns the differences between abi.go and a record of <linux/timerheap.h>.  Each
// line of the record has the value of a constant, the size of a struct, or the offset and the size
// of a field.
func compareRecord(record string) (differences []string) {
	differ := func(format string, values ...any) {
		differences = append(differences, fmt.Sprintf(format, values...))
	}
	constants, structures, fields := 0, 0, map[string]int{}
	for _, line := range strings.Split(record, "\n") {
		part := strings.Fields(line)
		if len(part) < 3 {
			continue
		}
		value, err := strconv.ParseUint(part[2], 0, 64)
		if err != nil {
			differ("%s: no number", line)
		}
		structure, field, _ := strings.Cut(part[1], ".")
		kind := goStructures[structure]
		switch {
		case part[0] == "constant":
			mine, ok := goConstants[part[1]]
			if ok && mine != value {
				differ("%s, and %#x in Go", line, mine)
			}
			if ok {
				constants++
			}
		case part[0] == "struct" && kind != nil:
			structures++
			if uint64(kind.Size()) != value {
				differ("%s, and %d bytes in Go", line, kind.Size())
			}
		// Skip the field of size 0, the array of ring entries: the Go type ring omits it.
		case part[0] == "field" && kind != nil && part[3] != "0":
			fields[structure]++
			mine, ok := kind.FieldByName(goName(field))
			if !ok || uint64(mine.Offset) != value ||
				fmt.Sprint(mine.Type.Size()) != part[3] {
				differ("%s, and %v in Go", line, mine)
			}
		}
	}
	if constants != len(goConstants) || structures != len(goStructures) {
		differ("the record lacks a constant or a structure")
	}
	for name, kind := range goStructures {
		if fields[name] != kind.NumField() {
			differ("%s: %d fields, and %d in Go", name, fields[name], kind.NumField())
		}
	}
	return differences
}

func TestConstantsAndStructuresAgreeWithRecordOfCHeader(t *testing.T) {
	content, err := os.ReadFile(recordPath)
	if os.IsNotExist(err) {
		t.Skip("the record of the header is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	record := string(content)
	for _, difference := range compareRecord(record) {
		t.Error(difference)
	}
	if slotStride != reflect.TypeOf(slot{}).Size() {
		t.Error("slotStride is ", slotStride)
	}

	// Change one number of the record at a time.  compareRecord must notice each changed
	// constant, structure size and field offset that the package uses.
	changes := 0
	number := regexp.MustCompile(`^(\w+ )(\S+)( )(\w+)`)
	lines := strings.Split(record, "\n")
	for i, line := range lines {
		part := number.FindStringSubmatch(line)
		if part == nil {
			continue
		}
		structure, _, _ := strings.Cut(part[2], ".")
		_, isConstant := goConstants[part[2]]
		if !isConstant && goStructures[structure] == nil {
			continue
		}
		value, _ := strconv.ParseUint(part[4], 0, 64)
		changed := append([]string(nil), lines...)
		changed[i] = strings.Replace(line, part[0],
			part[1]+part[2]+part[3]+fmt.Sprint(value+1), 1)
		if strings.HasSuffix(part[2], ".slots") && structure == "timerheap_ring" {
			continue
		}
		changes++
		if len(compareRecord(strings.Join(changed, "\n"))) == 0 {
			t.Error("the comparison does not notice ", changed[i])
		}
	}
	if changes < 40 {
		t.Error("only ", changes, " numbers were changed")
	}
}
