// Package web is the operator's page: runs, steps, games and engines as HTML, served beside the API. It shows what the
// API answers to the caller, and asks the API for every change, so that its numbers, its refusals and its audits are
// the API's; only the history that charts are drawn from is read from the stores, once for all who watch, by package
// runhistory. What a page says is made by package pageview of values alone; templates and the style sheet are embedded.
//
// Start reading at Site.
package web
