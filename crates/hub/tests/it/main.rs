//! The hub's requests, judged by what the origin saw.

#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a failed expectation is a failed test, and its counts are small"
)]

// The adaptive rate, run by run.
mod adaptive_rate;
// The seeds' configuration as written, and the library that obeys it.
mod seed_configuration;
// Opening, blocking, probing, closing, as callers meet it.
mod breaker;
// Callers that give up: what waits ends, what is sent is finished.
mod cancelled_requests;
// Stored answers: hits, validation, stale answers, flights.
mod cache;
// Layers, sources and suggestions.
mod config;
// More requests than a window permits, in processes that wake late, stand still and die.
mod contention;
// Buffered, streamed and to a file; caps and timeouts.
mod delivery;
// What other processes and operators do, as a running process learns of it.
mod shared_breakers;
// Exact event lists of scripted requests.
mod events;
// Over HTTP/2.
mod http2;
// Limits that are learned, in several processes.
mod learned_limits;
// Windows, wait queues, slots and bounds.
mod limiter;
// Rate headers: what a host states is used, and not exceeded.
mod quotas;
// Hop by hop.
mod redirects;
// Cookies on the way, and resolvers that lead to http.
mod cookies;
// robots.txt, for requests that obey it.
mod robots;
// What is tried again, and when.
mod retries;
// An hour of traffic in a second.
mod hour_of_traffic;
// Headers and configuration files changed at random.
mod fuzz;
// The entry function of the configuration's parser, which a fuzz target shares.
mod parsers;
// Real sockets, in real time: few.
mod real_sockets;
// A hub in a simulated world.
mod support;
