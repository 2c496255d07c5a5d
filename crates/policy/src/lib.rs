//! The five policy slots of a scheme: reclaim, sizing, admission, eviction, prefetch.
