// Package browser drives a real browser over the operator's page, for tests and screenshots, and notes what a page
// must not do: ask another server for something, or write an error to the console. Start reading at Start.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Find is the path of a browser that can be driven, or why there is none.
func Find() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome-headless-shell"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Chromium on the PATH (Debian: apt-get install chromium)")
}

// Browser is one window without a screen.
type Browser struct {
	ctx    context.Context
	server string
	end    func()

	mu     sync.Mutex
	faults []string
}

// Start opens a window for the pages of one server, such as http://127.0.0.1:8700, which ends with ctx.
func Start(ctx context.Context, path, server string) (*Browser, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true))
	if os.Geteuid() == 0 { // Chromium has no sandbox for root
		options = append(options, chromedp.NoSandbox)
	}
	ctx, endProcess := chromedp.NewExecAllocator(ctx, options...)
	ctx, endWindow := chromedp.NewContext(ctx)
	b := &Browser{ctx: ctx, server: server, end: func() { endWindow(); endProcess() }}
	chromedp.ListenTarget(ctx, b.hear)
	if err := chromedp.Run(ctx, network.Enable(), log.Enable(), runtime.Enable()); err != nil {
		b.end()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return b, nil
}

// Close ends the browser.
func (b *Browser) Close() { b.end() }

// Faults is what pages did and must not do, so far.
func (b *Browser) Faults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.faults...)
}

func (b *Browser) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

func (b *Browser) hear(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.server+"/") {
			b.fault("asked for %s", e.Request.URL)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			b.fault("console: %s (%s)", e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		b.fault("exception: %s", e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			b.fault("console.error: %v", e.Args)
		}
	}
}

// patience is how long one step may take on a loaded machine.
const patience = time.Minute

// Do performs steps one after another.
func (b *Browser) Do(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// Open goes to a page, and waits until it is there.
func (b *Browser) Open(path string) error {
	return b.Do(chromedp.Navigate(b.server+path), chromedp.WaitReady("main"))
}

// Click presses a link or button, and waits for the page that comes.
func (b *Browser) Click(selector string) error {
	return b.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := chromedp.RunResponse(ctx, chromedp.Click(selector, chromedp.ByQuery))
		return err
	}), chromedp.WaitReady("main"))
}

// Text is the text of the first element that a selector finds.
func (b *Browser) Text(selector string) (string, error) {
	var text string
	err := b.Do(chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).innerText", selector), &text))
	return strings.TrimSpace(text), err
}

// Path is where the window is.
func (b *Browser) Path() (string, error) {
	var at string
	err := b.Do(chromedp.Location(&at))
	return strings.TrimPrefix(at, b.server), err
}

// Picture is how a page is looked at.
type Picture struct {
	Width      int64
	Dark       bool  // by night
	MostHeight int64 // what lies below is cut off; 0: the whole page
	Quality    int64 // of a WebP, 1 to 100; 0: a PNG
}

// Take is a picture of the page that is open.
func (b *Browser) Take(p Picture) ([]byte, error) {
	scheme := "light"
	if p.Dark {
		scheme = "dark"
	}
	var height int64
	var picture []byte
	err := b.Do(chromedp.EmulateViewport(p.Width, 900),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.Sleep(300*time.Millisecond), // what is laid out anew is drawn with the next frames
		chromedp.Evaluate(`document.documentElement.scrollHeight`, &height),
		chromedp.ActionFunc(func(ctx context.Context) (err error) {
			if p.MostHeight > 0 {
				height = min(height, p.MostHeight)
			}
			shot := page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithFromSurface(true).
				WithClip(&page.Viewport{Width: float64(p.Width), Height: float64(height), Scale: 1})
			if p.Quality > 0 {
				shot = shot.WithFormat(page.CaptureScreenshotFormatWebp).WithQuality(p.Quality)
			}
			picture, err = shot.Do(ctx)
			return err
		}))
	return picture, err
}

// WidthBeyond is how far the page is wider than the window.
func (b *Browser) WidthBeyond() (int, error) {
	var beyond int
	err := b.Do(chromedp.Evaluate(`document.documentElement.scrollWidth - window.innerWidth`, &beyond))
	return beyond, err
}
