//! A disk in memory that stops at a chosen operation, and a model of what objects must hold.

#![allow(dead_code)]

pub mod disk;
pub mod model;
