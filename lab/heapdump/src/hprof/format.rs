//! The numbers of the HPROF format.

/// Tags of the records of a file.
pub(crate) mod tag {
    /// No tag: the file is larger than its records.
    pub const PADDING: u8 = 0;
    pub const UTF8: u8 = 0x01;
    pub const LOAD_CLASS: u8 = 0x02;
    pub const HEAP_DUMP: u8 = 0x0c;
    pub const HEAP_DUMP_SEGMENT: u8 = 0x1c;
    /// Ends the heap dump of all segments before it.
    pub const HEAP_DUMP_END: u8 = 0x2c;
}

/// Tags inside of a heap dump, besides those of [`RootKind`].
pub(crate) mod heap_tag {
    pub const CLASS_DUMP: u8 = 0x20;
    pub const INSTANCE_DUMP: u8 = 0x21;
    pub const OBJECT_ARRAY_DUMP: u8 = 0x22;
    pub const PRIMITIVE_ARRAY_DUMP: u8 = 0x23;
    /// Android: an array whose elements were left out.
    pub const PRIMITIVE_ARRAY_NODATA: u8 = 0xc3;
    /// Android: which heap the objects that follow belong to.
    pub const HEAP_DUMP_INFO: u8 = 0xfe;
}

/// The size of object identifiers, which are addresses in the dumps of most virtual machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdSize {
    /// 32-bit virtual machines, and Android's.
    Four,
    /// 64-bit virtual machines.
    Eight,
}

impl IdSize {
    /// Bytes of an identifier.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// The identifier at the start of `bytes`; `None` if there are too few.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<u64> {
        match self {
            Self::Four => Some(u32::from_be_bytes(*bytes.first_chunk()?).into()),
            Self::Eight => Some(u64::from_be_bytes(*bytes.first_chunk()?)),
        }
    }
}

/// The type of a field or of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum FieldType {
    Object,
    Boolean,
    Char,
    Float,
    Double,
    Byte,
    Short,
    Int,
    Long,
}

impl FieldType {
    /// The types of elements that primitive arrays have.
    pub const PRIMITIVE: [Self; 8] = [
        Self::Boolean,
        Self::Char,
        Self::Float,
        Self::Double,
        Self::Byte,
        Self::Short,
        Self::Int,
        Self::Long,
    ];

    pub(crate) const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            2 => Self::Object,
            4 => Self::Boolean,
            5 => Self::Char,
            6 => Self::Float,
            7 => Self::Double,
            8 => Self::Byte,
            9 => Self::Short,
            10 => Self::Int,
            11 => Self::Long,
            _ => return None,
        })
    }

    /// Bytes of a value where references take `reference_bytes`.
    pub const fn bytes(self, reference_bytes: u64) -> u64 {
        match self {
            Self::Object => reference_bytes,
            Self::Boolean | Self::Byte => 1,
            Self::Char | Self::Short => 2,
            Self::Float | Self::Int => 4,
            Self::Double | Self::Long => 8,
        }
    }

    /// The type's name in Java.
    pub(crate) const fn java_name(self) -> &'static str {
        match self {
            Self::Object => "Object",
            Self::Boolean => "boolean",
            Self::Char => "char",
            Self::Float => "float",
            Self::Double => "double",
            Self::Byte => "byte",
            Self::Short => "short",
            Self::Int => "int",
            Self::Long => "long",
        }
    }

    /// The name of the class of arrays of this type; `None` for objects, whose arrays have many.
    pub const fn array_class(self) -> Option<&'static str> {
        Some(match self {
            Self::Object => return None,
            Self::Boolean => "[Z",
            Self::Char => "[C",
            Self::Float => "[F",
            Self::Double => "[D",
            Self::Byte => "[B",
            Self::Short => "[S",
            Self::Int => "[I",
            Self::Long => "[J",
        })
    }
}

/// Why an object is a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum RootKind {
    Unknown,
    JniGlobal,
    JniLocal,
    JavaFrame,
    NativeStack,
    StickyClass,
    ThreadBlock,
    MonitorUsed,
    ThreadObject,
    /// Android's, as the following.
    InternedString,
    Finalizing,
    Debugger,
    ReferenceCleanup,
    VmInternal,
    JniMonitor,
    /// The object is garbage, in spite of its root record.
    Unreachable,
}

impl RootKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::Unknown,
        Self::JniGlobal,
        Self::JniLocal,
        Self::JavaFrame,
        Self::NativeStack,
        Self::StickyClass,
        Self::ThreadBlock,
        Self::MonitorUsed,
        Self::ThreadObject,
        Self::InternedString,
        Self::Finalizing,
        Self::Debugger,
        Self::ReferenceCleanup,
        Self::VmInternal,
        Self::JniMonitor,
        Self::Unreachable,
    ];

    pub(crate) const fn from_tag(tag: u8) -> Option<Self> {
        Some(match tag {
            0xff => Self::Unknown,
            0x01 => Self::JniGlobal,
            0x02 => Self::JniLocal,
            0x03 => Self::JavaFrame,
            0x04 => Self::NativeStack,
            0x05 => Self::StickyClass,
            0x06 => Self::ThreadBlock,
            0x07 => Self::MonitorUsed,
            0x08 => Self::ThreadObject,
            0x89 => Self::InternedString,
            0x8a => Self::Finalizing,
            0x8b => Self::Debugger,
            0x8c => Self::ReferenceCleanup,
            0x8d => Self::VmInternal,
            0x8e => Self::JniMonitor,
            0x90 => Self::Unreachable,
            _ => return None,
        })
    }

    /// Bytes that follow the object's identifier in the root record: thread and frame numbers.
    pub(crate) const fn trailer_bytes(self, id: IdSize) -> u64 {
        match self {
            Self::JniGlobal => id.bytes(),
            Self::JniLocal | Self::JavaFrame | Self::ThreadObject | Self::JniMonitor => 8,
            Self::NativeStack | Self::ThreadBlock => 4,
            _ => 0,
        }
    }
}
