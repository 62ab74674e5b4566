package main

import "github.com/millrace/millrace/internal/scaling/trial"

func writePage([2][]trial.Comparison, string, string) error { return nil }
