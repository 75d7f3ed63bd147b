package main

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	firstWait   = time.Second
	longestWait = 30 * time.Second
	// Only a connection that lasted this long starts again with short waits.
	stable = time.Minute
)

// Counts of all connections.
type Counts struct{ Attempts, Opened, Refused, Lost atomic.Int64 }

// StayConnected reconnects without storms until the context ends. A refused connection waits for Retry-After, plus jitter. A lost one
// waits for a random time of up to 1, 2, 4 … 30 seconds, so that the clients of a pod that died do not come back at the same moment.
func StayConnected(ctx context.Context, url string, counts *Counts, onMessage func([]byte)) {
	for failures := 0; ctx.Err() == nil; {
		started := time.Now()
		counts.Attempts.Add(1)
		wait := connectOnce(ctx, url, counts, onMessage)
		if time.Since(started) > stable {
			failures = 0
		} else {
			failures++
		}
		most := min(firstWait<<min(failures, 10), longestWait)
		if pause(ctx, max(wait, rand.N(most))) != nil {
			return
		}
	}
}

// Returns when the connection has ended, with the time that the gateway asks to wait.
func connectOnce(ctx context.Context, url string, counts *Counts, onMessage func([]byte)) time.Duration {
	dialing, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	socket, response, err := websocket.Dial(dialing, url, nil)
	if err != nil {
		if response == nil {
			counts.Lost.Add(1)
			return 0
		}
		counts.Refused.Add(1)
		wait, _ := retryAfter(response.Header)
		return wait
	}
	defer socket.CloseNow()
	counts.Opened.Add(1)
	for {
		_, message, err := socket.Read(ctx)
		if err != nil {
			counts.Lost.Add(1)
			return 0
		}
		onMessage(message)
	}
}
