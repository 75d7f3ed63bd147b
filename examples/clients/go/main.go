package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// go run . [-app APP] [-requests N] http://…             sends requests one after the other
// go run . [-connections N] [-seconds S] ws://…          keeps WebSocket connections open
func main() {
	app := flag.String("app", "", "sent as X-App-Id; only for gateways that trust this machine")
	requests := flag.Int("requests", 1, "number of requests")
	connections := flag.Int("connections", 1, "number of WebSocket connections")
	seconds := flag.Float64("seconds", 0, "end the connections after this time (default: Ctrl-C)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if strings.HasPrefix(flag.Arg(0), "ws") {
		connect(ctx, flag.Arg(0), *connections, *seconds)
		return
	}
	if err := send(ctx, flag.Arg(0), *app, *requests); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func send(ctx context.Context, url, app string, requests int) error {
	client := NewClient()
	answers := map[int]int{}
	for range requests {
		request, err := http.NewRequest("GET", url, nil)
		if err != nil {
			return err
		}
		if app != "" {
			request.Header.Set("X-App-Id", app)
		}
		response, err := client.Do(ctx, request)
		if err != nil {
			return err
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		answers[response.StatusCode]++
	}
	var counts []string
	for status, count := range answers {
		counts = append(counts, fmt.Sprintf("%d x %d", count, status))
	}
	sort.Strings(counts)
	fmt.Printf("%s; %d retries\n", strings.Join(counts, ", "), client.Retries.Load())
	return nil
}

func connect(ctx context.Context, url string, connections int, seconds float64) {
	if seconds > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second)))
		defer cancel()
		ctx = limited
	}
	var counts Counts
	var running sync.WaitGroup
	for range connections {
		running.Add(1)
		go func() {
			defer running.Done()
			StayConnected(ctx, url, &counts, func([]byte) {})
		}()
	}
	running.Wait()
	fmt.Printf("attempts %d, opened %d, refused %d, lost %d\n",
		counts.Attempts.Load(), counts.Opened.Load(), counts.Refused.Load(), counts.Lost.Load())
}
