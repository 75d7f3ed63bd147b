// A client of a gateway with limits, which backs off correctly.
//
//   - Refusals (429, 503) are repeated after Retry-After, plus jitter. A 429 without Retry-After can never succeed and is not repeated.
//   - The RateLimit header is honoured: with no tokens left, the next request waits instead of being refused.
//   - A retry budget limits repeated requests to a tenth of all requests, so that clients do not multiply an overload.
package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// RetryBudget: every request adds a tenth of a retry, at most Most. A retry takes one.
type RetryBudget struct {
	Share, Most float64
	mutex       sync.Mutex
	left        float64
}

func NewRetryBudget() *RetryBudget { return &RetryBudget{Share: 0.1, Most: 10, left: 10} }

func (b *RetryBudget) requestSent() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.left = min(b.left+b.Share, b.Most)
}

func (b *RetryBudget) take() bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// Client is safe for use by several goroutines.
type Client struct {
	HTTP        *http.Client
	Attempts    int
	LongestWait time.Duration
	Budget      *RetryBudget
	Retries     atomic.Int64
	// Unix nanoseconds; from the RateLimit header of the last response: no request before this time.
	notBefore atomic.Int64
}

func NewClient() *Client {
	return &Client{HTTP: &http.Client{Timeout: 20 * time.Second}, Attempts: 5, LongestWait: time.Minute, Budget: NewRetryBudget()}
}

// Do sends the request until it is answered with something else than a refusal. The caller closes the body. A request with a body
// needs GetBody, which http.NewRequest sets for buffers and strings.
func (c *Client) Do(ctx context.Context, request *http.Request) (*http.Response, error) {
	c.Budget.requestSent()
	for attempt := 1; ; attempt++ {
		if err := pause(ctx, time.Until(time.Unix(0, c.notBefore.Load()))); err != nil {
			return nil, err
		}
		if attempt > 1 && request.GetBody != nil {
			body, err := request.GetBody()
			if err != nil {
				return nil, err
			}
			request.Body = body
		}
		response, err := c.HTTP.Do(request.WithContext(ctx))
		if response != nil {
			c.pace(response.Header)
		}
		wait, useful := waitBeforeRetry(request, response, attempt)
		if !useful || attempt == c.Attempts || wait > c.LongestWait || !c.Budget.take() {
			return response, err
		}
		if response != nil {
			io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16))
			response.Body.Close()
		}
		c.Retries.Add(1)
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// Whether a retry is safe and may help, and how long to wait before it.
func waitBeforeRetry(request *http.Request, response *http.Response, attempt int) (time.Duration, bool) {
	backoff := time.Duration(rand.Float64() * min(float64(int(1)<<(attempt-1)), 30) * float64(time.Second))
	if response == nil {
		return backoff, idempotent[request.Method]
	}
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	if after, ok := retryAfter(response.Header); ok {
		return after, true
	}
	return backoff, response.StatusCode == http.StatusServiceUnavailable
}

// A refusal was not processed: any method may be repeated. After a failure of the connection only these.
var idempotent = map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true, "PUT": true, "DELETE": true}

// The time of Retry-After, plus up to a half of it as jitter.
func retryAfter(header http.Header) (time.Duration, bool) {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0, false
	}
	return time.Duration((float64(seconds) + rand.Float64()*max(float64(seconds), 1)/2) * float64(time.Second)), true
}

// RateLimit: "name";r=3;t=5 means three tokens left, full again in five seconds. Several limits are separated by commas.
var remaining = regexp.MustCompile(`;r=(\d+);t=(\d+)`)

func (c *Client) pace(header http.Header) {
	for _, match := range remaining.FindAllStringSubmatch(header.Get("RateLimit"), -1) {
		if match[1] != "0" || match[2] == "0" {
			continue
		}
		wait := time.Duration((1 + rand.Float64()/2) * float64(time.Second))
		c.notBefore.Store(time.Now().Add(wait).UnixNano())
	}
}

func pause(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
