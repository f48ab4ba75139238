// An ordinary Go program for WASI (GOOS=wasip1 GOARCH=wasm): arguments, a file, goroutines, and a slot in and out.
//
// Each line says what came of what was tried, so that a test can compare.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
	"unsafe"
)

//go:wasmimport monohull slot_take
func slotTake(name unsafe.Pointer, length, wait uint32, slot unsafe.Pointer) uint32

//go:wasmimport monohull slot_move
func slotMove(handle uint32, to unsafe.Pointer, length uint32) uint32

//go:wasmimport monohull slot_publish
func slotPublish(name unsafe.Pointer, length uint32, bytes unsafe.Pointer, count, isText uint32) uint32

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func code(number uint32) error {
	if number != 0 {
		return fmt.Errorf("WASI error %d", number)
	}
	return nil
}

func main() {
	fmt.Printf("hello from Go, %d arguments, the last is %s\n", len(os.Args), os.Args[len(os.Args)-1])

	var text []byte
	for i := range 1000 {
		text = append(strconv.AppendInt(text, int64(i), 10), '\n')
	}
	must(os.WriteFile("/work/numbers", text, 0o644))
	file, err := os.Open("/work/numbers")
	must(err)
	// One goroutine reads and another adds.
	numbers, sum := make(chan int), 0
	go func() {
		defer close(numbers)
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			number, err := strconv.Atoi(lines.Text())
			must(err)
			numbers <- number
		}
	}()
	for number := range numbers {
		sum += number
	}
	fmt.Println("from the file:", sum)
	if _, err := os.Open("/work/none"); !errors.Is(err, fs.ErrNotExist) {
		must(fmt.Errorf("a file that is not there: %v", err))
	}
	before := time.Now()
	time.Sleep(2 * time.Millisecond)
	fmt.Println("slept:", time.Since(before) >= 2*time.Millisecond)

	var slot [2]uint32
	in, out := []byte("in"), []byte("out")
	must(code(slotTake(unsafe.Pointer(&in[0]), 2, 1, unsafe.Pointer(&slot))))
	taken := make([]byte, slot[1]+3)
	must(code(slotMove(slot[0], unsafe.Pointer(&taken[3]), slot[1])))
	copy(taken, "Go:")
	must(code(slotPublish(unsafe.Pointer(&out[0]), 3, unsafe.Pointer(&taken[0]), uint32(len(taken)), 1)))
}
