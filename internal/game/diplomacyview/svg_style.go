package diplomacyview

import (
	_ "embed"
	"strings"
)

// rules is the style of a map with its colours as names, which colours fills in: CSS variables would do, but few
// programs other than browsers know them, and these draw all in black.
//
//go:embed style.css
var rules string

// colours are the names in rules: what each stands for by day and by night. Those from --p0 on are the powers'.
var colours = []struct{ name, day, night string }{
	{"--paper", "#fbfaf7", "#14181d"},
	{"--ink", "#1d2126", "#e8eaed"},
	{"--soft", "#5c6570", "#9aa4af"},
	{"--sea", "#cfe2ee", "#1d2f3d"},
	{"--land", "#efe8d8", "#3a3a35"},
	{"--rock", "#c9c2b4", "#26292b"},
	{"--line", "#8d8677", "#7b7768"},
	{"--coast", "#5f6f7a", "#90a6b5"},
	{"--bad", "#c22", "#ff6b5e"},
	{"--good", "#178a3a", "#53d07f"},
	{"--tint", ".42", ".5"}, // an opacity
	{"--p0", "#c63d2f", "#e2604f"},
	{"--p1", "#2b4fae", "#6d8df0"},
	{"--p2", "#1f93cf", "#4fbdf2"},
	{"--p3", "#4d5258", "#a3acb5"},
	{"--p4", "#2f8f46", "#57bd70"},
	{"--p5", "#8e5bb5", "#b98ae0"},
	{"--p6", "#c9950c", "#e8bd45"},
}

// style is the whole sheet: as by day wherever nothing more is understood, and as by night where that is asked for.
var style = func() string {
	var day, night []string
	for _, c := range colours {
		day, night = append(day, "var("+c.name+")", c.day), append(night, "var("+c.name+")", c.night)
	}
	return strings.NewReplacer(day...).Replace(rules) +
		"@media (prefers-color-scheme:dark) {\n" + strings.NewReplacer(night...).Replace(rules) + "}\n"
}()
