// Command pageshots takes pictures of the operator's pages, at the widths of a desk and of a telephone, by day and by
// night: of a server that runs,
//
//	go run ./trials/pageshots -server http://127.0.0.1:8700 -out DIR / /runs/demo
//
// or, with the binary, those of docs/page.md: of the run of `make run`, and of one that meets trouble (see play_pictured_runs.go):
//
//	go run ./trials/pageshots -millrace .bin/millrace -out docs/pages
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/millrace/millrace/trials/browser"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:8700", "whose pages")
	millrace := flag.String("millrace", "", "the binary: play the runs of the documentation, and show their pages")
	only := flag.String("only", "", "with -millrace: one of them: login, seed-004, elastic or troubled")
	out := flag.String("out", ".", "folder for the pictures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if *millrace != "" {
		err = playAndShow(ctx, *millrace, *out, *only)
	} else {
		err = show(ctx, *server, *out, everyWay, named(flag.Args()))
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pageshots:", err)
		os.Exit(1)
	}
}

// page is a page and the name of its pictures.
type page struct{ path, name string }

// named are pages whose pictures are called by their paths.
func named(paths []string) []page {
	var pages []page
	for _, path := range paths {
		name := strings.Trim(strings.NewReplacer("/", "-", "?", "-", "&", "-").Replace(path), "-")
		if name == "" {
			name = "overview"
		}
		pages = append(pages, page{path, name})
	}
	return pages
}

// view is one way of looking at a page.
type view struct {
	suffix string
	shot   browser.Picture
}

// everyWay is for a look at the whole; documented is what the documentation shows, in small files. Both are every page
// on a desk and on a telephone, by day and by night.
var (
	everyWay = []view{{"-1440-light.png", browser.Picture{Width: 1440}},
		{"-1440-dark.png", browser.Picture{Width: 1440, Dark: true}}, {"-390-light.png", browser.Picture{Width: 390}},
		{"-390-dark.png", browser.Picture{Width: 390, Dark: true}}}
	documented = []view{{".webp", browser.Picture{Width: 1440, MostHeight: 2200, Quality: 50}},
		{"-dark.webp", browser.Picture{Width: 1440, Dark: true, MostHeight: 1200, Quality: 30}},
		{"-phone.webp", browser.Picture{Width: 390, MostHeight: 1400, Quality: 30}},
		{"-phone-dark.webp", browser.Picture{Width: 390, Dark: true, MostHeight: 1400, Quality: 30}}}
)

// show takes the pictures, and fails if a page is wider than its window, or does what it must not.
func show(ctx context.Context, server, out string, views []view, pages []page) error {
	path, err := browser.Find()
	if err != nil {
		return err
	}
	b, err := browser.Start(ctx, path, server)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var faults []error
	for _, p := range pages {
		for range 2 { // what a page shows of a history or a diagnosis is made when it is first asked for
			if err := b.Open(p.path); err != nil {
				return fmt.Errorf("open %s: %w", p.path, err)
			}
		}
		for _, v := range views {
			picture, err := b.Take(v.shot)
			if err != nil {
				return fmt.Errorf("picture of %s: %w", p.path, err)
			}
			if err := os.WriteFile(filepath.Join(out, p.name+v.suffix), picture, 0o644); err != nil {
				return err
			}
			fmt.Printf("%s%s: %d kB\n", p.name, v.suffix, len(picture)/1000)
		}
		beyond, err := b.WidthBeyond()
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.path, err)
		}
		if beyond > 0 {
			faults = append(faults, fmt.Errorf("%s is %d pixels wider than a telephone", p.path, beyond))
		}
	}
	for _, fault := range b.Faults() {
		faults = append(faults, errors.New(fault))
	}
	return errors.Join(faults...)
}
