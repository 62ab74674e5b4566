//go:build linux

package podsandbox

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Image is what a container runs: a folder with its files, and what the Dockerfile says of how they are run.
type Image struct {
	Root       string
	Entrypoint []string
	Env        map[string]string
	User       string // uid:gid
}

// ReadImage is the image of which a Dockerfile's last stage says how it runs; its files are in a folder.
func ReadImage(dockerfile, root string) (Image, error) {
	image := Image{Root: root, Env: map[string]string{}, User: "0:0"}
	text, err := os.ReadFile(dockerfile)
	if err != nil {
		return image, err
	}
	stages := strings.Split(string(text), "\nFROM ")
	for line := range strings.SplitSeq(stages[len(stages)-1], "\n") {
		instruction, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch instruction {
		case "ENV":
			for _, word := range strings.Fields(value) {
				name, value, _ := strings.Cut(word, "=")
				image.Env[name] = value
			}
		case "USER":
			image.User = value
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(value), &image.Entrypoint); err != nil {
				return image, fmt.Errorf("%s: ENTRYPOINT: %w", dockerfile, err)
			}
		}
	}
	return image, nil
}
