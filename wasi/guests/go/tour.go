// An ordinary Go program for WASI (GOOS=wasip1 GOARCH=wasm): arguments, a file, goroutines, and a slot in and out.
//
// Each line says what came of what was tried, so that a test can compare.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"monohull"
	"os"
	"strconv"
	"time"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	if act := argument("--act="); act != "" {
		durable(act)
		return
	}
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

	taken, err := monohull.Take("in")
	must(err)
	must(monohull.PublishText("out", "Go:"+string(taken)))
}
