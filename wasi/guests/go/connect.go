package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"monohull/network"
	"strings"
	"syscall"
	"time"
)

// Asks the server that the argument `at` names, beside a goroutine that counts, and what is not there.
func connect() {
	at := argument("--at=")
	ticks := make(chan int)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		count := 0
		for ctx.Err() == nil {
			count++
			time.Sleep(time.Millisecond)
		}
		ticks <- count
	}()
	conn, err := network.Dial(at)
	must(err)
	fmt.Fprintf(conn, "GET /hello HTTP/1.0\r\nHost: %s\r\n\r\n", at)
	answer, err := io.ReadAll(conn)
	must(err)
	must(conn.Close())
	cancel()
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	status, _, _ := strings.Cut(head, "\r\n")
	fmt.Println(status, strings.TrimSpace(body), "others ran:", <-ticks > 3)

	_, err = network.Dial(argument("--closed="))
	fmt.Println("nothing listens:", errors.Is(err, syscall.ECONNREFUSED))
	_, err = network.Dial("192.0.2.1:80")
	fmt.Println("not granted:", errors.Is(err, syscall.EPERM), err)
	_, err = network.DialContext(context.Background(), "udp", at)
	fmt.Println(err)
	addresses, err := network.LookupHost("127.0.0.1")
	fmt.Println(addresses, err)
	late, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = network.DialContext(late, "tcp", argument("--deaf="))
	fmt.Println("in time:", errors.Is(err, context.DeadlineExceeded))
}
